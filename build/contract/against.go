// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// The rules that an API server checks.
const (
	RuleCRDEstablished = "server/crd-established"
	RuleObjectAccepted = "server/object-accepted"
	RulePodAdmitted    = "server/pod-admitted"
	RuleNotChecked     = "server/not-checked"
)

// Verdict is the decision of an API server on an object.
type Verdict int

const (
	// Accepted means that the API server accepts the object.
	Accepted Verdict = iota
	// Rejected means that the API server rejects the object.
	Rejected
	// Unknown means that the API server cannot decide.
	Unknown
)

// Answer is a verdict and its reasons.
type Answer struct {
	Verdict Verdict
	// Causes are the reasons unless the verdict is Accepted.
	Causes []Cause
	// Forbidden is set if the user lacks a permission for the write.
	Forbidden bool
}

// Reasons returns the causes as one text.
func (a Answer) Reasons() string {
	var texts []string
	for _, cause := range a.Causes {
		texts = append(texts, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
	}
	return strings.Join(texts, "; ")
}

// Cause is a reason of a verdict.
type Cause struct {
	// Field of the object, such as "spec.ports[0].port"; may be empty.
	Field   string
	Message string
}

// Server is an API server. Its methods return an error if the server is unavailable. They are called concurrently.
type Server interface {
	// DryRun returns the verdict on a dry run of an apply, with which the installer writes.
	DryRun(ctx context.Context, object *unstructured.Unstructured) (Answer, error)
	// DryRunCreate returns the verdict on a dry run of a creation with strict validation of fields, as kubectl creates the objects of a
	// release. An apply would reject fields that are null.
	DryRunCreate(ctx context.Context, object *unstructured.Unstructured) (Answer, error)
	// Schema returns the OpenAPI schema of a kind that a CRD defines, as AsJSON does; nil if no CRD of the server defines the kind.
	Schema(ctx context.Context, kind schema.GroupVersionKind) (map[string]any, error)
}

// dryRun is a write of an object with dryRun=All, for a rule.
type dryRun struct {
	rule string
	// object is the object of the request; place is its position in the manifests.
	object *unstructured.Unstructured
	place  Value
	// about describes the object of the request, if it is not the object at place.
	about  string
	answer Answer
	// creator is the dry run of the object that creates the pod of the request; nil for any other.
	creator *dryRun
}

// concurrentDryRuns is the maximum number of concurrent dry runs.
const concurrentDryRuns = 8

// CheckAgainst returns the objects of a bundle that an API server rejects, as findings in the order of the manifests.
// It returns an error if the server is unavailable.
func CheckAgainst(ctx context.Context, bundle extractor.Bundle, server Server, rules []Rule) (Findings, error) {
	return checkAgainst(ctx, Read(bundle), server.DryRun, rules)
}

// judge is a method of Server.
type judge func(ctx context.Context, object *unstructured.Unstructured) (Answer, error)

// checkAgainst returns the objects of a bundle, or of components, that an API server rejects.
func checkAgainst(ctx context.Context, b *Bundle, judge judge, rules []Rule) (Findings, error) {
	var sent []*dryRun
	for _, o := range b.Objects {
		rule := RuleObjectAccepted
		if o.Kind == object.CustomResourceDefinition {
			rule = RuleCRDEstablished
		}
		q := b.newDryRun(rule, o)
		sent = append(sent, q)
		if pod := podOf(o); pod != nil && q.object != nil { // otherwise the finding is about the workload itself
			pod.SetNamespace(q.object.GetNamespace())
			sent = append(sent, &dryRun{rule: RulePodAdmitted, object: pod, place: PodSpec(o), about: "its pod is rejected", creator: q})
		}
	}
	errs := parallel.MapLimit(sent, concurrentDryRuns, func(q *dryRun) (err error) {
		if q.object != nil {
			q.answer, err = judge(ctx, q.object)
		}
		return err
	})
	return findingsOf(sent, rules), errors.Join(errs...)
}

// findingsOf returns the findings of dry runs. They belong to the rules that a server checks.
func findingsOf(sent []*dryRun, rules []Rule) (findings Findings) {
	for _, rule := range rules {
		var found Findings
		for _, q := range sent {
			if q.verdictOn(rule.ID) {
				found = append(found, q.findings()...)
			}
		}
		findings = append(findings, rule.Complete(found)...)
	}
	return inOrder(findings)
}

// verdictOn reports whether the answer is a finding of the rule.
func (q *dryRun) verdictOn(rule string) bool {
	switch {
	case q.creator != nil && q.creator.answer.Verdict == Rejected:
		return false // it has the cause
	case q.answer.Verdict == Rejected:
		return rule == q.rule
	case q.answer.Verdict != Accepted:
		return rule == RuleNotChecked
	default:
		return false
	}
}

func (q *dryRun) findings() (findings Findings) {
	for _, cause := range q.answer.Causes {
		place, message := q.place, strings.Join(strings.Fields(cause.Message), " ")
		if q.about == "" {
			place = q.place.reached(stepsOf(cause.Field))
		} else {
			message = strings.TrimSuffix(q.about+": "+cause.Field, ": ") + ": " + message
		}
		findings = append(findings, place.Finding("%s", message)...)
	}
	return findings
}

// requestObject returns an object as it is sent to the server; nil and the reason if it cannot be sent.
func requestObject(o *Object) (*unstructured.Unstructured, Answer) {
	data, err := o.JSON()
	unknown := func(why string) Answer { return Answer{Verdict: Unknown, Causes: []Cause{{Message: why}}} }
	if err != nil {
		return nil, unknown("it cannot be read: " + err.Error())
	}
	if variable.Contains(data) && o.Kind != object.CustomResourceDefinition {
		return nil, unknown("it depends on a variable without default")
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, unknown("it cannot be read: " + err.Error())
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return object, Answer{}
}

// newDryRun returns the dry run of an object. A namespace of the bundle does not exist yet; the namespace default takes its place.
func (b *Bundle) newDryRun(rule string, o *Object) *dryRun {
	q := &dryRun{rule: rule, place: o.Value}
	if q.object, q.answer = requestObject(o); q.object == nil {
		return q
	}
	q.object.SetNamespace(o.Namespace)
	if b.Has(object.Namespace, "", o.Namespace) {
		q.object.SetNamespace(metav1.NamespaceDefault)
	}
	return q
}

// podOf returns the pod that a workload creates; nil for another object. It has no service account, because the bundle creates it.
func podOf(o *Object) *unstructured.Unstructured {
	spec := PodSpec(o)
	if !spec.Exists() || o.Kind.Kind == "Pod" {
		return nil
	}
	content := spec.Map()
	if content == nil {
		return nil // reported by another rule
	}
	delete(content, "serviceAccountName")
	delete(content, "serviceAccount")
	if content["restartPolicy"] == "OnFailure" || o.Kind.Group == "batch" {
		content["restartPolicy"] = "Never"
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": content}}
	pod.SetName("validate") // a generated name would differ in each run
	return pod
}
