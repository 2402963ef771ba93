// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is a kind without validation. Its group is the env's own.
func (b *env) definition(kind string) *unstructured.Unstructured {
	b.Helper()
	plural := strings.ToLower(kind) + "s"
	return b.object(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[3]s.example.com}
spec:
  group: %[3]s.example.com
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s, singular: %[4]s, listKind: %[1]sList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, kind, plural, b.namespace, strings.ToLower(kind))
}

// define creates a kind and waits until objects of it can be created. It is removed at the end of the test.
func (b *env) define(kind string) {
	b.Helper()
	definition := b.definition(kind)
	b.create(definition)
	b.removeAtEnd(definition)
	b.eventually("the kind is served", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: b.namespace + ".example.com", Version: "v1", Kind: kind + "List"})
		return b.established(definition) && b.user.List(b.Context(), list) == nil
	})
}

func (b *env) established(definition *unstructured.Unstructured) bool {
	return (&probing.ConditionProbe{Type: "Established", Status: "True"}).Probe(b.get(definition)).Status == probing.StatusTrue
}

// removeAtEnd deletes a cluster-scoped object at the end of the test.
func (b *env) removeAtEnd(object client.Object) {
	b.Cleanup(func() {
		if err := client.IgnoreNotFound(b.user.Delete(context.Background(), object)); err != nil {
			b.Error(err)
		}
	})
}

// widget returns an object of a defined kind.
func (b *env) widget(name string) *unstructured.Unstructured {
	b.Helper()
	out := b.object(`{apiVersion: %s.example.com/v1, kind: Widget, metadata: {name: %s, labels: {app: web}}, spec: {size: 3, color: red}}`, b.namespace, name)
	out.SetNamespace(b.namespace)
	return out
}

// report writes the status of an object as its controller.
func (b *env) report(object *unstructured.Unstructured, status string) {
	b.Helper()
	if status == "" {
		return
	}
	patch := client.RawPatch(apitypes.MergePatchType, []byte(`{"status":`+status+`}`))
	b.must(b.user.Status().Patch(b.Context(), object.DeepCopy(), patch, client.FieldOwner("user")))
	b.catchUpWith(object)
}

func cel(rule string) boxcutter.Prober {
	probe, err := probing.NewCELProbe(rule, "the field differs")
	if err != nil {
		panic(err)
	}
	return probe
}

var (
	ready     = &probing.ConditionProbe{Type: "Ready", Status: "True"}
	green     = &probing.FieldValueProbe{FieldPath: ".status.color", Value: "green"}
	sameSize  = &probing.FieldsEqualProbe{FieldA: ".spec.size", FieldB: ".status.size"}
	upToDate  = &probing.ObservedGenerationProbe{Prober: green}
	celGreen  = cel(`self.status.color == "green"`)
	widgets   = func(b *env) schema.GroupKind { return b.widget("x").GroupVersionKind().GroupKind() }
	webApp    = labels.SelectorFromSet(labels.Set{"app": "web"})
	otherApp  = labels.SelectorFromSet(labels.Set{"app": "other"})
	isTrue    = probing.StatusTrue
	isFalse   = probing.StatusFalse
	isUnknown = probing.StatusUnknown
)

// probes are applied to a widget of generation 1 with or without a status.
var probes = []struct {
	name   string
	probe  boxcutter.Prober
	status string
	want   probing.Status
}{
	{"condition of no status", ready, ``, isUnknown},
	{"condition of no conditions", ready, `{"color":"red"}`, isUnknown},
	{"condition of malformed conditions", ready, `{"conditions":{"Ready":"True"}}`, isUnknown},
	{"condition of a malformed condition", ready, `{"conditions":["Ready"]}`, isUnknown},
	{"condition of another type", ready, `{"conditions":[{"type":"Available","status":"True"}]}`, isUnknown},
	{"condition without a status", ready, `{"conditions":[{"type":"Ready"}]}`, isFalse},
	{"condition of an older generation", ready, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":7}]}`, isUnknown},
	{"condition of this generation", ready, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`, isTrue},
	{"condition that is met", ready, `{"conditions":[{"type":"Available","status":"False"},{"type":"Ready","status":"True"}]}`, isTrue},
	{"condition that is not met", ready, `{"conditions":[{"type":"Ready","status":"False","reason":"Broken"}]}`, isFalse},
	{"condition with status Unknown", ready, `{"conditions":[{"type":"Ready","status":"Unknown"}]}`, isFalse},

	{"fields equal, one missing", sameSize, `{"color":"red"}`, isFalse},
	{"fields equal, no status", sameSize, ``, isFalse},
	{"fields equal, one is null", sameSize, `{"size":null}`, isFalse},
	{"fields equal, path through a number", &probing.FieldsEqualProbe{FieldA: ".spec.size.x", FieldB: ".spec.size"}, ``, isFalse},
	{"fields equal, differing", sameSize, `{"size":2}`, isFalse},
	{"fields equal, of another type", sameSize, `{"size":"3"}`, isFalse},
	{"fields equal, equal", sameSize, `{"size":3}`, isTrue},

	{"field value, missing", green, ``, isFalse},
	{"field value, another", green, `{"color":"red"}`, isFalse},
	{"field value, an object", green, `{"color":{"green":true}}`, isFalse},
	{"field value, the same", green, `{"color":"green"}`, isTrue},
	{"field value, a number", &probing.FieldValueProbe{FieldPath: ".spec.size", Value: "3"}, ``, isFalse},

	{"observed generation, no status", upToDate, ``, isFalse},
	{"observed generation, not given", upToDate, `{"color":"green"}`, isTrue},
	{"observed generation, another", upToDate, `{"color":"green","observedGeneration":7}`, isUnknown},
	{"observed generation, the same", upToDate, `{"color":"green","observedGeneration":1}`, isTrue},
	{"observed generation, malformed", upToDate, `{"color":"green","observedGeneration":"1"}`, isTrue},

	{"CEL, missing", celGreen, ``, isUnknown},
	{"CEL, missing but tested with has", cel(`has(self.status) && self.status.color == "green"`), ``, isFalse},
	{"CEL, another", celGreen, `{"color":"red"}`, isFalse},
	{"CEL, the same", celGreen, `{"color":"green"}`, isTrue},
	{"CEL, of another type", celGreen, `{"color":3}`, isFalse},

	{"labels that match", &probing.LabelSelector{Prober: green, Selector: webApp}, ``, isFalse},
	{"labels that do not match", &probing.LabelSelector{Prober: green, Selector: otherApp}, ``, isTrue},
	{"another kind", &probing.GroupKindSelector{Prober: green, GroupKind: schema.GroupKind{Kind: "ConfigMap"}}, ``, isTrue},

	{"no probes", probing.And{}, ``, isTrue},
	{"unknown and false", probing.And{green, ready}, ``, isUnknown},
	{"true and false", probing.And{green, sameSize}, `{"color":"green"}`, isFalse},
	{"true and true", probing.And{green, sameSize}, `{"color":"green","size":3}`, isTrue},
}

func TestProbe_Widgets(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	b.define("Widget")
	byStatus := map[string]*unstructured.Unstructured{}
	var objects []*unstructured.Unstructured
	for _, test := range probes {
		if byStatus[test.status] == nil {
			byStatus[test.status] = b.widget("widget-" + string(rune('a'+len(byStatus))))
			objects = append(objects, byStatus[test.status])
		}
	}
	revision := b.revision(1, b.owner("owner"), nil, phase("main", objects...))
	b.install(revision)
	for status, object := range byStatus {
		b.report(object, status)
	}
	for _, test := range probes {
		b.within(test.name, func(b *env) {
			i := slices.Index(objects, byStatus[test.status])
			result := b.reconcile(revision, boxcutter.WithProbe(boxcutter.ProgressProbeType, test.probe))
			object := result.GetPhases()[0].GetObjects()[i]
			got := object.ProbeResults().Type(boxcutter.ProgressProbeType)
			if got.Status != test.want || object.Action() != machinery.ActionIdle {
				b.Errorf("got %v, %s; want %s", got, object.Action(), test.want)
			}
			if object.IsComplete() != (test.want == isTrue) {
				b.Errorf("complete: %t for %s", object.IsComplete(), got.Status)
			}
			if test.want != isTrue && strings.Join(got.Messages, "") == "" {
				b.Error("the result has no message")
			}
		})
	}
}

func TestProbe_ProgressHoldsNextPhase(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	b.define("Widget")
	widget := b.widget("widget")
	kind := &probing.GroupKindSelector{Prober: probing.And{ready, upToDate}, GroupKind: widgets(b)}
	revision := b.revision(1, b.owner("owner"), nil, phase("first", widget), phase("second", b.configMap("settings", "red"))).
		WithReconcileOptions(boxcutter.WithProbe(boxcutter.ProgressProbeType, kind))

	result := b.reconcile(revision)
	b.expectActions(result, machinery.ActionCreated)
	if result.IsComplete() || !result.InTransition() || !strings.Contains(result.String(), `Phase "second" (Pending)`) {
		t.Errorf("the second phase is not pending:\n%s", result)
	}
	b.catchUp(revision)
	b.expectActions(b.reconcile(revision), machinery.ActionIdle)
	if b.get(b.configMap("settings", "")) != nil {
		t.Fatal("the second phase started")
	}
	b.report(widget, `{"color":"green","conditions":[{"type":"Ready","status":"True"}]}`)
	result = b.reconcile(revision)
	b.expectActions(result, machinery.ActionIdle, machinery.ActionCreated)
	if !result.IsComplete() {
		t.Errorf("the revision is not complete:\n%s", result)
	}
}

// The result of a probe of another type is only for the caller.
func TestProbe_OthersDoNotHoldPhase(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	revision := b.revision(1, nil, nil, phase("main", b.configMap("settings", "red")))
	result := b.reconcile(revision, boxcutter.WithProbe("Availability", ready))
	if !result.IsComplete() {
		t.Errorf("the revision is not complete:\n%s", result)
	}
	probed := result.GetPhases()[0].GetObjects()[0].ProbeResults()
	if got := probed.Type("Availability"); got.Status != isUnknown {
		t.Errorf("got %v", got)
	}
	if got := probed.Type("Other"); got.Status != isUnknown || !slices.Equal(got.Messages, []string{`no such probe "Other"`}) {
		t.Errorf("a missing probe has the result %v", got)
	}
}

// Until its controller has processed a change, the conditions of an object describe its previous generation.
func TestProbe_DeploymentByNewGeneration(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	available := &probing.ObservedGenerationProbe{Prober: probing.And{
		&probing.ConditionProbe{Type: "Available", Status: "True"},
		&probing.FieldsEqualProbe{FieldA: ".status.updatedReplicas", FieldB: ".spec.replicas"},
	}}
	probe := boxcutter.WithProbe(boxcutter.ProgressProbeType, available)
	owner := b.owner("owner")
	b.install(b.revision(1, owner, nil, phase("main", b.deployment(rolling, ""))), probe)
	next := b.deployment(rolling, sidecar)
	result := b.reconcile(b.revision(2, owner, nil, phase("main", next)), probe)
	if got := result.GetPhases()[0].GetObjects()[0].ProbeResults().Type(boxcutter.ProgressProbeType); got.Status == isTrue {
		t.Errorf("the result is about the previous generation: %v\n%s", got, result)
	}
	b.install(b.revision(2, owner, nil, phase("main", next)), probe)
}

func TestCELProbe_RejectsNonBooleanRules(t *testing.T) {
	for rule, invalid := range map[string]bool{`self.spec.size`: true, `"yes"`: true, `self.(`: false} {
		if _, err := probing.NewCELProbe(rule, ""); err == nil || errors.Is(err, probing.ErrCELInvalidEvaluationType) != invalid {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
