// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

// object returns an object in the form of an API response.
func object(t *testing.T, text string) client.Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("{apiVersion: example.com/v1, kind: Widget, " + text + "}"))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

func answer(result Result) Prober {
	return types.ProbeFunc(func(client.Object) Result { return result })
}

func TestProbe_Results(t *testing.T) {
	available := &ConditionProbe{Type: "Available", Status: "True"}
	sameReplicas := &FieldsEqualProbe{FieldA: ".spec.replicas", FieldB: "status.readyReplicas"}
	running := &FieldValueProbe{FieldPath: ".status.phase", Value: "Running"}
	upToDate := &ObservedGenerationProbe{Prober: answer(FalseResult("asked"))}
	widgets := &GroupKindSelector{Prober: answer(FalseResult("asked")), GroupKind: schema.GroupKind{Group: "example.com", Kind: "Widget"}}
	gadgets := &GroupKindSelector{Prober: answer(FalseResult("asked")), GroupKind: schema.GroupKind{Group: "example.com", Kind: "Gadget"}}
	labeled := &LabelSelector{Prober: answer(FalseResult("asked")), Selector: labels.SelectorFromSet(labels.Set{"app": "a"})}

	for name, test := range map[string]struct {
		probe  Prober
		object string
		want   Result
	}{
		"condition: has the status": {
			available, `status: {conditions: [{type: Other, status: "False"}, {type: Available, status: "True"}]}`,
			TrueResult(`condition "Available" is "True"`),
		},
		"condition: has another status": {
			available, `status: {conditions: [{type: Available, status: "False", reason: Broken, message: it broke}]}`,
			FalseResult(`condition "Available" is "False", want "True" (Broken: it broke)`),
		},
		"condition: has another status and no message": {
			available, `status: {conditions: [{type: Available, status: Unknown}]}`,
			FalseResult(`condition "Available" is "Unknown", want "True"`),
		},
		"condition: for the current generation": {
			available, `metadata: {generation: 2}, status: {conditions: [{type: Available, status: "True", observedGeneration: 2}]}`,
			TrueResult(`condition "Available" is "True"`),
		},
		"condition: for an earlier generation": {
			available, `metadata: {generation: 2}, status: {conditions: [{type: Available, status: "True", observedGeneration: 1}]}`,
			UnknownResult(`condition "Available" is outdated: observed generation 1, current generation 2`),
		},
		"condition: generation malformed": {
			available, `status: {conditions: [{type: Available, status: "True", observedGeneration: one}]}`,
			TrueResult(`condition "Available" is "True"`),
		},
		"condition: missing":            {available, `status: {conditions: []}`, UnknownResult(`object has no condition "Available"`)},
		"condition: no status":          {available, `spec: {}`, UnknownResult("object has no status.conditions")},
		"condition: status is a string": {available, `status: fine`, UnknownResult("object has no status.conditions")},
		"condition: not a list": {
			available, `status: {conditions: {Available: "True"}}`,
			UnknownResult("status.conditions is malformed: got map[string]interface {}, want a list"),
		},
		"condition: no objects in the list": {
			available, `status: {conditions: [Available]}`,
			UnknownResult("status.conditions[0] is malformed: got string, want an object"),
		},
		"condition: without status": {
			available, `status: {conditions: [{type: Available}]}`,
			FalseResult(`condition "Available" is "", want "True"`),
		},

		"fields: equal": {
			sameReplicas, `spec: {replicas: 3}, status: {readyReplicas: 3}`,
			TrueResult(`".spec.replicas" equals "status.readyReplicas"`),
		},
		"fields: not equal": {
			sameReplicas, `spec: {replicas: 3}, status: {readyReplicas: 2}`,
			FalseResult(`".spec.replicas" is 3, "status.readyReplicas" is 2, want equal values`),
		},
		"fields: another type":  {sameReplicas, `spec: {replicas: 3}, status: {readyReplicas: "3"}`, FalseResult(`".spec.replicas" is 3, "status.readyReplicas" is 3, want equal values`)},
		"fields: one missing":   {sameReplicas, `spec: {replicas: 3}`, FalseResult(`field "status.readyReplicas" not found`)},
		"fields: other missing": {sameReplicas, `status: {readyReplicas: 3}`, FalseResult(`field ".spec.replicas" not found`)},
		"fields: both null":     {sameReplicas, `spec: {replicas: null}, status: {readyReplicas: null}`, TrueResult(`".spec.replicas" equals "status.readyReplicas"`)},
		"fields: whole objects": {
			&FieldsEqualProbe{FieldA: "spec", FieldB: "status"}, `spec: {a: [1, {b: c}]}, status: {a: [1, {b: c}]}`,
			TrueResult(`"spec" equals "status"`),
		},
		"fields: path through a string": {
			&FieldsEqualProbe{FieldA: "spec.a.b", FieldB: "spec.a"}, `spec: {a: text}`,
			FalseResult(`reading field "spec.a.b": .spec.a.b accessor error: text is of the type string, expected map[string]interface{}`),
		},

		"value: equal":     {running, `status: {phase: Running}`, TrueResult(`".status.phase" is "Running"`)},
		"value: not equal": {running, `status: {phase: Pending}`, FalseResult(`".status.phase" is "Pending", want "Running"`)},
		"value: missing":   {running, `status: {}`, FalseResult(`field ".status.phase" not found`)},
		"value: number":    {&FieldValueProbe{FieldPath: "status.count", Value: "3"}, `status: {count: 3}`, FalseResult(`"status.count" is 3, want "3"`)},
		"value: boolean":   {&FieldValueProbe{FieldPath: "status.ok", Value: "true"}, `status: {ok: true}`, FalseResult(`"status.ok" is true, want "true"`)},
		"value: object":    {running, `status: {phase: {Running: true}}`, FalseResult(`".status.phase" is map[string]interface {}{"Running":true}, want "Running"`)},
		"value: last dot":  {&FieldValueProbe{FieldPath: ".status.phase.", Value: "Running"}, `status: {phase: Running}`, TrueResult(`".status.phase." is "Running"`)},

		"generation: observed":     {upToDate, `metadata: {generation: 2}, status: {observedGeneration: 2}`, FalseResult("asked")},
		"generation: missing":      {upToDate, `metadata: {generation: 2}, status: {}`, FalseResult("asked")},
		"generation: no status":    {upToDate, `metadata: {generation: 2}`, FalseResult("asked")},
		"generation: not observed": {upToDate, `metadata: {generation: 2}, status: {observedGeneration: 1}`, UnknownResult("status is outdated: observed generation 1, current generation 2")},
		"generation: malformed":    {upToDate, `status: {observedGeneration: one}`, FalseResult("asked")},

		"kind: selected":                    {widgets, `spec: {}`, FalseResult("asked")},
		"kind: not selected":                {gadgets, `spec: {}`, TrueResult()},
		"labels: selected":                  {labeled, `metadata: {labels: {app: a, other: b}}`, FalseResult("asked")},
		"labels: not selected":              {labeled, `metadata: {labels: {app: b}}`, TrueResult()},
		"labels: none":                      {labeled, `spec: {}`, TrueResult()},
		"labels: no selector, all selected": {&LabelSelector{Prober: answer(FalseResult("asked"))}, `spec: {}`, FalseResult("asked")},

		"and: no probes": {And{}, `spec: {}`, TrueResult()},
		"and: all true":  {And{answer(TrueResult("a")), answer(TrueResult("b"))}, `spec: {}`, TrueResult("a", "b")},
		"and: one false": {
			And{answer(TrueResult("a")), answer(FalseResult("b")), answer(FalseResult("c"))}, `spec: {}`, FalseResult("b", "c"),
		},
		"and: one unknown": {
			And{answer(FalseResult("a")), answer(UnknownResult("b")), answer(TrueResult("c")), answer(UnknownResult())}, `spec: {}`, UnknownResult("b"),
		},
		"and: no result":       {And{answer(Result{Messages: []string{"a"}})}, `spec: {}`, UnknownResult(`probe returned invalid status ""`, "a")},
		"and: no probe":        {And{nil}, `spec: {}`, UnknownResult("probe is not set")},
		"and: nested":          {And{And{answer(TrueResult()), And{answer(FalseResult("deep"))}}}, `spec: {}`, FalseResult("deep")},
		"kind: no probe":       {&GroupKindSelector{GroupKind: widgets.GroupKind}, `spec: {}`, UnknownResult("probe is not set")},
		"labels no probe":      {&LabelSelector{}, `spec: {}`, UnknownResult("probe is not set")},
		"generation: no probe": {&ObservedGenerationProbe{}, `spec: {}`, UnknownResult("probe is not set")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.probe.Probe(object(t, test.object))); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbe_TypedObjects(t *testing.T) {
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "d", Generation: 3},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 3,
			UpdatedReplicas:    2,
			Conditions:         []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		},
	}
	probe := &GroupKindSelector{
		GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"},
		Prober: &ObservedGenerationProbe{Prober: And{
			&ConditionProbe{Type: "Available", Status: "True"},
			&FieldsEqualProbe{FieldA: ".status.updatedReplicas", FieldB: ".spec.replicas"},
		}},
	}
	if got := probe.Probe(deployment); got.Status != StatusTrue {
		t.Errorf("got %+v, want True", got)
	}
	deployment.Generation = 4
	if got := probe.Probe(deployment); got.Status != StatusUnknown {
		t.Errorf("after a change got %+v, want Unknown", got)
	}
}

func TestCELProbe_Results(t *testing.T) {
	for name, test := range map[string]struct {
		rule, object string
		want         Status
	}{
		"true":                      {"self.spec.count == self.status.count", "spec: {count: 1}, status: {count: 1}", StatusTrue},
		"false":                     {"self.spec.count == self.status.count", "spec: {count: 1}, status: {count: 2}", StatusFalse},
		"another type":              {`self.status.count == "1"`, "status: {count: 1}", StatusFalse},
		"field missing":             {"self.status.count == 1", "spec: {}", StatusUnknown},
		"field tested with has":     {"has(self.status) && self.status.count == 1", "spec: {}", StatusFalse},
		"optional field":            {"self.?status.count.orValue(1) == 1", "spec: {}", StatusTrue},
		"list":                      {`self.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`, `status: {conditions: [{type: Ready, status: "True"}]}`, StatusTrue},
		"not a boolean at run time": {"bool(self.status.ok)", "status: {ok: [1]}", StatusUnknown},
		"strings":                   {`self.status.name.lowerAscii().startsWith("a")`, "status: {name: ABC}", StatusTrue},
		"quantities":                {`quantity(self.spec.size).compareTo(quantity("1000Mi")) > 0`, "spec: {size: 1Gi}", StatusTrue},
		"semantic versions":         {`semver(self.status.version).isGreaterThan(semver("1.2.3"))`, `status: {version: 1.10.0}`, StatusTrue},
		"sums":                      {"self.status.counts.map(c, int(c)).sum() == 6", "status: {counts: [1, 2, 3]}", StatusTrue},
		"addresses":                 {`cidr("10.0.0.0/8").containsIP(self.status.ip)`, "status: {ip: 10.1.2.3}", StatusTrue},
	} {
		t.Run(name, func(t *testing.T) {
			probe, err := NewCELProbe(test.rule, "the message")
			if err != nil {
				t.Fatal(err)
			}
			got := probe.Probe(object(t, test.object))
			if got.Status != test.want {
				t.Errorf("got %+v, want %s", got, test.want)
			}
			if said := len(got.Messages) > 0 && got.Messages[0] == "the message"; said != (got.Status == StatusFalse) {
				t.Errorf("messages: %q with status %s", got.Messages, got.Status)
			}
		})
	}
}

func TestCELProbe_EvaluationErrorHasCause(t *testing.T) {
	probe, err := NewCELProbe("self.status.count == 1", "the message")
	if err != nil {
		t.Fatal(err)
	}
	got := probe.Probe(object(t, "spec: {}"))
	want := UnknownResult("CEL program failed: no such key: status")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestNewCELProbe_RejectsInvalidRules(t *testing.T) {
	for _, rule := range []string{"", "self.", "other.spec == 1", "unknown(self)", `1 == "a"`} {
		if _, err := NewCELProbe(rule, ""); err == nil || errors.Is(err, ErrCELInvalidEvaluationType) {
			t.Errorf("rule %q: got %v, want an error of the compiler", rule, err)
		} else if !strings.Contains(err.Error(), `"`) {
			t.Errorf("rule %q is missing in the error %v", rule, err)
		}
	}
	for _, rule := range []string{"1", `"true"`, "self.status.ok", "[true]", "self"} {
		if _, err := NewCELProbe(rule, ""); !errors.Is(err, ErrCELInvalidEvaluationType) {
			t.Errorf("rule %q: got %v, want ErrCELInvalidEvaluationType", rule, err)
		}
	}
}

func TestCELProbe_ZeroValueIsUnknown(t *testing.T) {
	if got := (&CELProbe{}).Probe(object(t, "spec: {}")); got.Status != StatusUnknown {
		t.Errorf("got %+v, want Unknown", got)
	}
}
