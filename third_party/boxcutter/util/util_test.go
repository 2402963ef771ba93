// SPDX-License-Identifier: Apache-2.0

package util_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/util"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// same is a comparator that reports no differences for our own objects.
type same struct{}

func (same) Compare(_, _ machinery.Object, _ ...types.ComparatorOption) (machinery.CompareResult, error) {
	return machinery.CompareResult{}, nil
}

// refusing reports a finding for one phase.
type refusing string

func (r refusing) Validate(_ context.Context, phase types.Phase, _ ...types.PhaseReconcileOption) error {
	if phase.GetName() != string(r) {
		return nil
	}
	return validation.NewPhaseValidationError(phase.GetName(), errors.New("refused"))
}

func configMap(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "default"},
	}}
}

func engine(objects ...client.Object) *machinery.RevisionEngine {
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	object := machinery.NewObjectEngine(c.Scheme(), c, c, same{}, "test", "test.example.com", "", c)
	return machinery.NewRevisionEngine(machinery.NewPhaseEngine(object, refusing("refused")), validation.NewRevisionValidator(), c)
}

func phase(name string, objects ...string) types.Phase {
	var list []client.Object
	for _, object := range objects {
		list = append(list, configMap(object))
	}
	return types.NewPhase(name, list)
}

func TestSummarizeRevisionResult_Texts(t *testing.T) {
	waiting := types.WithProbe(types.ProgressProbeType, types.ProbeFunc(func(client.Object) types.ProbeResult {
		return types.ProbeResult{Status: types.ProbeStatusFalse, Messages: []string{"not yet", "soon"}}
	}))
	tests := map[string]struct {
		phases  []types.Phase
		options []types.RevisionReconcileOption
		want    string
	}{
		"nothing":    {want: "reconcile completed successfully"},
		"successful": {phases: []types.Phase{phase("one", "a"), phase("two", "b")}, want: "2 phase(s) successful"},
		"collision":  {phases: []types.Phase{phase("one", "foreign")}, want: "phases with issues: one: collision of /v1, Kind=ConfigMap default/foreign; status: in transition"},
		"probe": {
			phases: []types.Phase{phase("one", "a")}, options: []types.RevisionReconcileOption{waiting},
			want: "phases with issues: one: probe Progress of /v1, Kind=ConfigMap default/a is False: not yet, soon; status: incomplete",
		},
		"refused": {
			phases: []types.Phase{phase("refused", "a")},
			want:   `phases with issues: refused: validation error: phase "refused": refused; status: incomplete`,
		},
		"invalid": {
			phases: []types.Phase{phase("one", "a", "a")},
			want:   `validation error: revision "test" (1): phase "one": /v1, Kind=ConfigMap default/a: object occurs more than once in phase "one"; status: incomplete`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result, err := engine(configMap("foreign")).Reconcile(t.Context(), types.NewRevision("test", 1, test.phases), test.options...)
			if err != nil {
				t.Fatal(err)
			}
			if got := util.SummarizeRevisionResult(result); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if got := util.SummarizeRevisionResult(nil); got != "" {
		t.Errorf("no result: %q", got)
	}
}

func TestSummarizeRevisionTeardownResult_Texts(t *testing.T) {
	e := engine()
	rev := types.NewRevision("test", 1, []types.Phase{phase("one", "a"), phase("two", "b"), phase("three")})
	if _, err := e.Reconcile(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"active phase: two (waiting for /v1, Kind=ConfigMap default/b); waiting phases: one; gone phases: three",
		"active phase: one (waiting for /v1, Kind=ConfigMap default/a); gone phases: two, three",
		"teardown completed successfully",
	} {
		result, err := e.Teardown(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		if got := util.SummarizeRevisionTeardownResult(result); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := util.SummarizeRevisionTeardownResult(nil); got != "" {
		t.Errorf("no result: %q", got)
	}
}
