// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// overriding embeds the engine and overrides both methods, as the original allows.
type overriding struct {
	*machinery.ObjectEngine

	calls *[]string
}

func (o overriding) Reconcile(
	ctx context.Context, revision int64, desired machinery.Object, opts ...types.ObjectReconcileOption,
) (machinery.ObjectResult, error) {
	*o.calls = append(*o.calls, "reconcile "+desired.GetName())
	return o.ObjectEngine.Reconcile(ctx, revision, desired, opts...)
}

func (o overriding) Teardown(
	ctx context.Context, revision int64, desired machinery.Object, opts ...types.ObjectTeardownOption,
) (bool, error) {
	*o.calls = append(*o.calls, "teardown "+desired.GetName())
	return o.ObjectEngine.Teardown(ctx, revision, desired, opts...)
}

func TestPhaseEngine_CallsEmbeddedObjectEngine(t *testing.T) {
	c := newCluster(t)
	var calls []string
	engine := machinery.NewPhaseEngine(overriding{c.engine(), &calls}, nil)
	phase := types.NewPhase("main", named(t, "a", "b"))
	if _, err := engine.Reconcile(t.Context(), 1, phase); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Teardown(t.Context(), 1, phase); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"reconcile a", "reconcile b", "teardown a", "teardown b"}, calls); diff != "" {
		t.Error(diff)
	}
}

// recorder is a validator that records the objects of its calls.
type recorder struct{ objects []client.Object }

func (r *recorder) Validate(_ context.Context, phase types.Phase, _ ...types.PhaseReconcileOption) error {
	r.objects = phase.GetObjects()
	return nil
}

func TestPhaseEngine_ValidatorSeesObjectsOfCaller(t *testing.T) {
	c := newCluster(t, named(t, "foreign")...)
	objects := named(t, "foreign", "new")
	validator := &recorder{}
	if _, err := machinery.NewPhaseEngine(c.engine(), validator).Reconcile(t.Context(), 1, types.NewPhase("main", objects)); err != nil {
		t.Fatal(err)
	}
	if len(validator.objects) != 2 || validator.objects[0] != objects[0] || validator.objects[1] != objects[1] {
		t.Errorf("validated objects: %v", validator.objects)
	}
}

func TestObjectResult_CompareResult(t *testing.T) {
	c := newCluster(t)
	desired := configMap(t)
	c.reconcile(t, 1, desired)
	c.edit(t, desired, `{"data":{"color":"blue"}}`)
	type compared interface {
		CompareResult() machinery.CompareResult
	}
	result, ok := c.reconcile(t, 1, desired).(compared)
	if !ok || !result.CompareResult().IsConflict() {
		t.Errorf("the result has no conflict: %v", result)
	}
	idle, ok := c.reconcile(t, 1, desired).(compared)
	if !ok || idle.CompareResult().DesiredFieldSet == nil || len(idle.CompareResult().Modified()) > 0 {
		t.Errorf("the idle result differs: %v", idle)
	}
}

// isComparable compiles only for comparable types.
func isComparable[T comparable]() {}

func TestEngines_AreComparable(t *testing.T) {
	isComparable[machinery.ObjectEngine]()
	isComparable[machinery.Comparator]()
	for name, option := range map[string]any{
		"probe": types.WithProbe("p", nil), "orphan": types.WithOrphan(), "aggregate": types.WithAggregatePhaseReconcileErrors(),
		"phase": types.WithPhaseReconcileOptions("p"), "owner": types.WithOwner(owner("one"), owners),
	} {
		if same := option; same != option {
			t.Errorf("%s is not comparable", name)
		}
	}
}
