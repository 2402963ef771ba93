// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func probeCases() []Case {
	return []Case{
		{"probes/cel", probeCEL},
		{"probes/field-value", probeTable(map[string]probeRow{
			"equal":         {&probing.FieldValueProbe{FieldPath: ".status.phase", Value: "Running"}, "status: {phase: Running}", probing.StatusTrue},
			"different":     {&probing.FieldValueProbe{FieldPath: ".status.phase", Value: "Running"}, "status: {phase: Failed}", probing.StatusFalse},
			"missing":       {&probing.FieldValueProbe{FieldPath: ".status.phase", Value: "Running"}, "status: {}", probing.StatusFalse},
			"number":        {&probing.FieldValueProbe{FieldPath: ".status.count", Value: "3"}, "status: {count: 3}", probing.StatusFalse},
			"boolean":       {&probing.FieldValueProbe{FieldPath: ".status.ok", Value: "true"}, "status: {ok: true}", probing.StatusFalse},
			"trailing dot":  {&probing.FieldValueProbe{FieldPath: ".status.phase.", Value: "Running"}, "status: {phase: Running}", probing.StatusTrue},
			"without a dot": {&probing.FieldValueProbe{FieldPath: "status.phase", Value: "Running"}, "status: {phase: Running}", probing.StatusTrue},
		})},
		{"probes/fields-equal", probeTable(map[string]probeRow{
			"equal":     {&probing.FieldsEqualProbe{FieldA: ".spec.count", FieldB: ".status.count"}, "spec: {count: 1}\nstatus: {count: 1}", probing.StatusTrue},
			"different": {&probing.FieldsEqualProbe{FieldA: ".spec.count", FieldB: ".status.count"}, "spec: {count: 1}\nstatus: {count: 2}", probing.StatusFalse},
			"missing":   {&probing.FieldsEqualProbe{FieldA: ".spec.count", FieldB: ".status.count"}, "spec: {count: 1}", probing.StatusFalse},
			"null":      {&probing.FieldsEqualProbe{FieldA: ".spec.count", FieldB: ".status.count"}, "spec: {count: null}\nstatus: {count: null}", probing.StatusTrue},
		})},
		{"probes/condition", probeTable(map[string]probeRow{
			"status":               {ready, "status: {conditions: [{type: Ready, status: 'True'}]}", probing.StatusTrue},
			"other status":         {ready, "status: {conditions: [{type: Ready, status: 'False'}]}", probing.StatusFalse},
			"missing":              {ready, "status: {conditions: []}", probing.StatusUnknown},
			"none":                 {ready, "spec: {}", probing.StatusUnknown},
			"outdated":             {ready, "metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}", probing.StatusUnknown},
			"malformed generation": {ready, "status: {conditions: [{type: Ready, status: 'True', observedGeneration: one}]}", probing.StatusTrue},
			"status not a string":  {ready, "status: {conditions: [{type: Ready, status: true}]}", probing.StatusFalse},
		})},
		{"probes/observed-generation", probeTable(map[string]probeRow{
			"observed":  {&probing.ObservedGenerationProbe{Prober: yes}, "metadata: {generation: 2}\nstatus: {observedGeneration: 2}", probing.StatusTrue},
			"outdated":  {&probing.ObservedGenerationProbe{Prober: yes}, "metadata: {generation: 2}\nstatus: {observedGeneration: 1}", probing.StatusUnknown},
			"missing":   {&probing.ObservedGenerationProbe{Prober: yes}, "metadata: {generation: 2}", probing.StatusTrue},
			"malformed": {&probing.ObservedGenerationProbe{Prober: yes}, "metadata: {generation: 2}\nstatus: {observedGeneration: one}", probing.StatusTrue},
		})},
		{"probes/and", probeTable(map[string]probeRow{
			"none":    {probing.And{}, "spec: {}", probing.StatusTrue},
			"false":   {probing.And{yes, no}, "spec: {}", probing.StatusFalse},
			"unknown": {probing.And{no, unknown, yes}, "spec: {}", probing.StatusUnknown},
		})},
		{"probes/unregistered-type", func(t *testing.T, _ *Env) {
			if got := (types.ProbeResultContainer{}).Type("X"); got.Status != types.ProbeStatusUnknown {
				t.Errorf("got %v", got)
			}
		}},
	}
}

var (
	ready   = &probing.ConditionProbe{Type: "Ready", Status: "True"}
	yes     = answer(probing.TrueResult())
	no      = answer(probing.FalseResult("no"))
	unknown = answer(probing.UnknownResult("unknown"))
)

func answer(result probing.Result) probing.Prober {
	return types.ProbeFunc(func(client.Object) probing.Result { return result })
}

type probeRow struct {
	probe  probing.Prober
	object string
	want   probing.Status
}

func probeTable(rows map[string]probeRow) func(t *testing.T, e *Env) {
	return func(t *testing.T, _ *Env) {
		for name, row := range rows {
			if got := row.probe.Probe(probed(t, row.object)); got.Status != row.want {
				t.Errorf("%s: %s %v, want %s", name, got.Status, got.Messages, row.want)
			}
		}
	}
}

func probed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/v1\nkind: Widget\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

func probeCEL(t *testing.T, _ *Env) {
	if _, err := probing.NewCELProbe("1", ""); !errors.Is(err, probing.ErrCELInvalidEvaluationType) {
		t.Errorf("a rule that is not a boolean gives %v", err)
	}
	for object, want := range map[string]probing.Status{
		"spec: {count: 1}": probing.StatusTrue, "spec: {count: 2}": probing.StatusFalse, "status: {}": probing.StatusUnknown,
	} {
		probe, err := probing.NewCELProbe("self.spec.count == 1", "message")
		if err != nil {
			t.Fatal(err)
		}
		if got := probe.Probe(probed(t, object)); got.Status != want {
			t.Errorf("%s: %s %v, want %s", object, got.Status, got.Messages, want)
		}
	}
}
