// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// The rules that an API server has the last word on.
const (
	crdEstablished  = "server/crd-established"
	objectAccepted  = "server/object-accepted"
	policyCompiles  = "server/policy-compiles"
	podAdmitted     = "server/pod-admitted"
	minimalAccepted = "server/minimal-object"
	notChecked      = "server/not-checked"
)

// serverRules are checked by CheckAgainst alone.
var serverRules = []Rule{{
	ID:       crdEstablished,
	By:       ByServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "A CRD that the API server does not establish is not served: nobody can create an object of its kind, and the installer waits for it before it goes on.",
	Fix:      "Correct the CRD as the message says. Names that are not accepted are those of another CRD of the group.",
}, {
	ID:       objectAccepted,
	By:       ByServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The installer writes nothing of a phase in which the API server refuses an object.",
	Fix:      "Correct the object as the message says.",
}, {
	ID:       policyCompiles,
	By:       ByServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Validating Admission Policy", "reference/access-authn-authz/validating-admission-policy/"),
	Why:      "An admission policy whose expressions the API server cannot compile is refused.",
	Fix:      "Correct the CEL expression as the message says.",
}, {
	ID:       podAdmitted,
	By:       ByServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Pod Security Admission", "concepts/security/pod-security-admission/"),
	Why:      "The API server takes a Deployment whatever its pods are like. If it refuses the pods, the Deployment never has any, and the installer waits for it in vain.",
	Fix:      "Correct the pod template as the message says; the providers' namespace takes restricted pods only.",
}, {
	ID:       minimalAccepted,
	By:       ByServer,
	Severity: Warning,
	Only:     FormBundle,
	Source:   kubernetes("Validation", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "An object with no more than what the schema requires is refused, so that nobody can tell from the schema what a good one is.",
	Fix:      "Correct what contradicts itself in the schema: required fields, defaults, enums, patterns and limits.",
}, {
	ID:       notChecked,
	By:       ByServer,
	Severity: Info,
	Only:     FormBundle,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "This API server could not be asked: it lacks a kind, a namespace or a right, or what to ask is not known.",
	Fix:      "Nothing; or ask one that can tell, such as a cluster on which the provider is installed.",
}}

// Verdict is what an API server thinks of an object.
type Verdict int

const (
	// Accepted means that it takes the object.
	Accepted Verdict = iota
	// Refused means that it does not.
	Refused
	// Unknown means that it cannot be asked.
	Unknown
)

// Answer is a verdict and its reasons.
type Answer struct {
	Verdict Verdict
	// Causes say why it is not accepted.
	Causes []Cause
}

// Cause is one thing that is wrong.
type Cause struct {
	// Field of the object that was asked about, such as "spec.ports[0].port"; may be empty.
	Field   string
	Message string
}

// Server is an API server that can be asked. An error means that it was not
// reached. Both methods are called concurrently.
type Server interface {
	// Define asks whether a CRD would be, or is, established with its names.
	Define(ctx context.Context, crd *unstructured.Unstructured) (Answer, error)
	// Try asks whether an object would be taken. It is not written.
	Try(ctx context.Context, object *unstructured.Unstructured) (Answer, error)
}

// question is asked about an object, for a rule.
type question struct {
	rule string
	// ask is what the server is asked about, place where that stands in the manifests.
	ask   *unstructured.Unstructured
	place Value
	// about says what it is, if it is not the object itself.
	about string
	// guessed says that a part of ask is a guess, so that a refusal means little.
	guessed bool
	answer  Answer
}

// concurrentQuestions bounds how many the server is asked at a time.
const concurrentQuestions = 8

// CheckAgainst returns everything in which a bundle breaks a rule by the word of an API
// server, in the order of the manifests. An error means that the server was not reached.
func CheckAgainst(ctx context.Context, bundle extractor.Bundle, server Server) ([]Finding, error) {
	b := readBundle(bundle)
	definitions := b.definitionQuestions()
	var asked []*question
	for _, stage := range []struct {
		questions func() []*question
		ask       func(context.Context, *unstructured.Unstructured) (Answer, error)
	}{
		{func() []*question { return definitions }, server.Define}, // the others may be of the kinds that these define
		{b.objectQuestions, server.Try},
		{b.podQuestions, server.Try},
		{func() []*question { return b.minimalQuestions(definitions) }, server.Try},
	} {
		questions := stage.questions()
		if err := askAll(ctx, questions, stage.ask); err != nil {
			return nil, err
		}
		asked = append(asked, questions...)
	}
	return judge(onceUnknown(asked)), nil
}

// onceUnknown leaves out that an API server without a kind cannot tell of its further versions either.
func onceUnknown(asked []*question) []*question {
	told := map[*Object]bool{}
	return slices.DeleteFunc(asked, func(q *question) bool {
		if q.rule != minimalAccepted || q.answer.Verdict != Unknown {
			return false
		}
		before := told[q.place.object]
		told[q.place.object] = true
		return before
	})
}

func askAll(ctx context.Context, questions []*question, ask func(context.Context, *unstructured.Unstructured) (Answer, error)) error {
	errs := make([]error, len(questions))
	limit := make(chan struct{}, concurrentQuestions)
	var wait sync.WaitGroup
	for i, q := range questions {
		if q.ask == nil {
			continue // answered already
		}
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			q.answer, errs[i] = ask(ctx, q.ask)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// judge makes findings of the answers.
func judge(asked []*question) (findings []Finding) {
	for _, rule := range serverRules {
		var found []Finding
		for _, q := range asked {
			if q.verdictOn(rule.ID) {
				found = append(found, q.findings()...)
			}
		}
		findings = append(findings, rule.complete(found)...)
	}
	return inOrder(findings)
}

// verdictOn says whether the answer is a finding of the rule. A guess that is refused
// tells no more than one that could not be asked.
func (q *question) verdictOn(rule string) bool {
	switch {
	case q.answer.Verdict == Refused && !q.guessed:
		return rule == q.rule
	case q.answer.Verdict != Accepted:
		return rule == notChecked
	default:
		return false
	}
}

func (q *question) findings() (findings []Finding) {
	for _, cause := range q.answer.Causes {
		place, message := q.place, strings.Join(strings.Fields(cause.Message), " ")
		if q.about == "" {
			place = q.place.reached(stepsOf(cause.Field))
		} else {
			message = strings.TrimSuffix(q.about+": "+cause.Field, ": ") + ": " + message
		}
		findings = append(findings, place.finding("%s", message))
	}
	return findings
}

// sent is an object as it is sent to the server; nil with the reason in answer if it cannot be.
func sent(o *Object) (*unstructured.Unstructured, Answer) {
	data, err := o.json()
	unknown := func(why string) Answer { return Answer{Unknown, []Cause{{Message: why}}} }
	if err != nil {
		return nil, unknown("it cannot be read: " + err.Error())
	}
	if bytes.Contains(data, []byte("${")) && o.Kind != crdKind {
		return nil, unknown("it depends on a variable without default")
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, unknown("it cannot be read: " + err.Error())
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return object, Answer{}
}

func (b *Bundle) definitionQuestions() (questions []*question) {
	for _, d := range b.definitions {
		questions = append(questions, ask(crdEstablished, d.Object))
	}
	return questions
}

// objectQuestions are about every other object.
func (b *Bundle) objectQuestions() (questions []*question) {
	for _, o := range b.Objects {
		switch {
		case o.Kind == crdKind:
		case o.Kind.Group == admissionGroup && strings.Contains(o.Kind.Kind, "AdmissionPolicy"):
			questions = append(questions, ask(policyCompiles, o))
		default:
			questions = append(questions, ask(objectAccepted, o))
		}
	}
	return questions
}

func ask(rule string, o *Object) *question {
	q := &question{rule: rule, place: o.Value}
	q.ask, q.answer = sent(o)
	return q
}

// podQuestions are about the pods that objects make. Their service account is left
// out, because it comes with the bundle.
func (b *Bundle) podQuestions() (questions []*question) {
	for _, o := range b.Objects {
		spec := podSpec(o)
		if !spec.Exists() || o.Kind.Kind == "Pod" {
			continue
		}
		if q := ask(podAdmitted, o); q.ask != nil { // or else that is told of the object itself
			q.ask, q.place, q.about = podOf(o, spec), spec, "its pod is refused"
			questions = append(questions, q)
		}
	}
	return questions
}

func podOf(o *Object, spec Value) *unstructured.Unstructured {
	content := map[string]any{}
	if data, err := spec.json(); err != nil || json.Unmarshal(data, &content) != nil {
		return nil // another rule
	}
	delete(content, "serviceAccountName")
	delete(content, "serviceAccount")
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": content}}
	if content["restartPolicy"] == "OnFailure" || o.Kind.Group == "batch" {
		content["restartPolicy"] = "Never"
	}
	pod.SetName("validate") // one that the server makes would make each run tell something else
	pod.SetNamespace(o.Namespace)
	return pod
}

// minimalQuestions are about one object of each version that a CRD serves, if it is accepted.
func (b *Bundle) minimalQuestions(definitions []*question) (questions []*question) {
	for i, d := range b.definitions {
		if definitions[i].answer.Verdict != Accepted {
			continue
		}
		for _, version := range d.At("spec", "versions").Items() {
			if version.At("served").Text() != "true" {
				continue
			}
			schema := version.At("schema", "openAPIV3Schema")
			q := &question{rule: minimalAccepted, place: version, about: "an object with only what " + version.At("name").Text() + " requires"}
			if schema.Exists() {
				q.place = schema
			}
			q.ask, q.guessed = d.minimal(version)
			questions = append(questions, q)
		}
	}
	return questions
}

// minimal is an object with only what a version of a CRD requires, and whether it is in part a guess.
func (d *definition) minimal(version Value) (*unstructured.Unstructured, bool) {
	var schema map[string]any
	if data, err := version.At("schema", "openAPIV3Schema").json(); err != nil || json.Unmarshal(data, &schema) != nil {
		return nil, true // another rule
	}
	content, guessed := minimalOf(schema)
	fields, _ := content.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion(d.Group + "/" + version.At("name").Text())
	object.SetKind(d.Defines)
	delete(fields, "metadata")
	object.SetName("minimal")
	if d.At("spec", "scope").Text() == "Namespaced" {
		object.SetNamespace(v1alpha1.OperandNamespace)
	}
	return object, guessed
}
