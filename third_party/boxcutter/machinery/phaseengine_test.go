// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// named returns ConfigMaps with these names.
func named(t *testing.T, names ...string) []client.Object {
	t.Helper()
	var out []client.Object
	for _, name := range names {
		obj := configMap(t)
		obj.SetName(name)
		out = append(out, obj)
	}
	return out
}

// seen is a validator that records its arguments and returns a fixed result.
type seen struct {
	names  []string
	answer error
}

func (s *seen) Validate(_ context.Context, phase types.Phase, _ ...types.PhaseReconcileOption) error {
	for _, obj := range phase.GetObjects() {
		s.names = append(s.names, obj.GetName())
	}
	return s.answer
}

func refusal(phase string) error {
	return validation.NewPhaseValidationError(phase, errors.New("refused"))
}

// failOn makes writes of the objects with these names fail.
func failOn(failure error, names ...string) func(string, any) error {
	return func(_ string, obj any) error {
		for _, name := range names {
			if obj.(client.Object).GetName() == name {
				return failure
			}
		}
		return nil
	}
}

// actions returns "<name>: <action>" for each object of a phase.
func actions(result machinery.PhaseResult) []string {
	var out []string
	for _, object := range result.GetObjects() {
		out = append(out, fmt.Sprintf("%s: %s", object.Object().GetName(), object.Action()))
	}
	return out
}

func TestPhaseReconcile_Errors(t *testing.T) {
	broken := errors.New("broken")
	tests := map[string]struct {
		failure error
		options []types.PhaseReconcileOption
		objects []string
		message string
	}{
		"the first error ends the step": {
			failure: broken, objects: []string{"a: Created"},
			message: "reconciling /v1, Kind=ConfigMap default/b: creating object: broken",
		},
		"errors are aggregated on request": {
			failure: broken, objects: []string{"a: Created", "c: Created"},
			options: []types.PhaseReconcileOption{types.WithAggregatePhaseReconcileErrors()},
			message: "reconciling /v1, Kind=ConfigMap default/b: creating object: broken\nreconciling /v1, Kind=ConfigMap default/d: creating object: broken",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.before = failOn(test.failure, "b", "d")
			phase := types.NewPhase("main", named(t, "a", "b", "c", "d"))
			result, err := machinery.NewPhaseEngine(c.engine(), nil).Reconcile(t.Context(), 1, phase, test.options...)
			if err == nil || err.Error() != test.message || !errors.Is(err, test.failure) {
				t.Errorf("got error %v, want %s", err, test.message)
			}
			equal(t, "objects", test.objects, actions(result))
			if result.IsComplete() || result.HasProgressed() {
				t.Error("a phase with errors is complete")
			}
		})
	}
}

func TestPhaseReconcile_TooManyRequestsEndsAggregation(t *testing.T) {
	c := newCluster(t)
	c.before = failOn(apierrors.NewTooManyRequests("slow down", 1), "settings")
	objects := append([]client.Object{configMap(t)}, owner("later"))
	result, err := machinery.NewPhaseEngine(c.engine(), nil).
		Reconcile(t.Context(), 1, types.NewPhase("main", objects), types.WithAggregatePhaseReconcileErrors())
	if !apierrors.IsTooManyRequests(err) || len(result.GetObjects()) > 0 || c.get(t, owner("later")) != nil {
		t.Errorf("got %v, %v", result, err)
	}
}

func TestPhaseReconcile_Validation(t *testing.T) {
	t.Run("a finding is a result, and nothing is written", func(t *testing.T) {
		c := newCluster(t)
		result, err := machinery.NewPhaseEngine(c.engine(), &seen{answer: refusal("main")}).
			Reconcile(t.Context(), 1, types.NewPhase("main", named(t, "a", "b")))
		if err != nil || result.GetValidationError() == nil || len(c.took()) > 0 {
			t.Errorf("got %v, %v", result, err)
		}
		if result.IsComplete() || result.InTransition() || result.HasProgressed() {
			t.Errorf("got %s", result)
		}
	})
	t.Run("another error is an error, and nothing is written", func(t *testing.T) {
		c := newCluster(t)
		broken := errors.New("broken")
		_, err := machinery.NewPhaseEngine(c.engine(), &seen{answer: broken}).
			Reconcile(t.Context(), 1, types.NewPhase("main", named(t, "a")))
		if !errors.Is(err, broken) || len(c.took()) > 0 {
			t.Errorf("got %v", err)
		}
	})
	for _, test := range []struct {
		name  string
		opts  []types.PhaseReconcileOption
		shown []string
	}{
		{"all objects", nil, []string{"same", "drifted", "foreign", "new"}},
		{"all objects, without a dry run of unchanged ones", []types.PhaseReconcileOption{types.WithoutDryRunOfUnchanged()}, []string{"same", "drifted", "foreign", "new"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, named(t, "foreign")...)
			phase := types.NewPhase("main", named(t, "same", "drifted"))
			if _, err := machinery.NewPhaseEngine(c.engine(), nil).Reconcile(t.Context(), 1, phase); err != nil {
				t.Fatal(err)
			}
			c.edit(t, named(t, "drifted")[0], `{"data":{"color":"blue"}}`)
			validator := &seen{}
			phase = types.NewPhase("main", named(t, "same", "drifted", "foreign", "new"))
			if _, err := machinery.NewPhaseEngine(c.engine(), validator).Reconcile(t.Context(), 1, phase, test.opts...); err != nil {
				t.Fatal(err)
			}
			equal(t, "shown", test.shown, validator.names)
		})
	}
	t.Run("objects whose namespace or kind is in the phase are validated", func(t *testing.T) {
		c := newCluster(t)
		objects := []client.Object{
			object(t, `{apiVersion: v1, kind: Namespace, metadata: {name: fresh}}`),
			object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: fresh}}`),
			object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.example.com}, spec: {group: example.com, names: {kind: Gadget}}}`),
			object(t, `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: instance}}`),
			configMap(t),
		}
		validator := &seen{answer: refusal("main")}
		if _, err := machinery.NewPhaseEngine(c.engine(), validator).Reconcile(t.Context(), 1, types.NewPhase("main", objects)); err != nil {
			t.Fatal(err)
		}
		equal(t, "shown", []string{"fresh", "inside", "gadgets.example.com", "instance", "settings"}, validator.names)
	})
}

func TestTeardown_ReportsReleasedObjects(t *testing.T) {
	c := newCluster(t, named(t, "foreign")...)
	phase := types.NewPhase("main", named(t, "foreign", "absent", "mine", "orphan"))
	engine := machinery.NewPhaseEngine(c.engine(), nil)
	if _, err := engine.Reconcile(t.Context(), 1, types.NewPhase("main", named(t, "mine", "orphan"))); err != nil {
		t.Fatal(err)
	}
	orphan := types.WithObjectTeardownOptions(named(t, "orphan")[0], types.WithOrphan())
	result, err := engine.Teardown(t.Context(), 1, phase, orphan)
	if err != nil || result.IsComplete() {
		t.Fatalf("got %v, %v", result, err)
	}
	const want = `Phase "main"
Gone Objects:
- /v1, Kind=ConfigMap default/absent
Released Objects:
- /v1, Kind=ConfigMap default/foreign
- /v1, Kind=ConfigMap default/orphan
Waiting Objects:
- /v1, Kind=ConfigMap default/mine
`
	equal(t, "result", want, result.String())
	refs := func(names ...string) (out []types.ObjectRef) {
		for _, object := range named(t, names...) {
			out = append(out, types.ToObjectRef(object))
		}
		return out
	}
	equal(t, "gone", refs("foreign", "absent", "orphan"), result.Gone())
	equal(t, "released", refs("foreign", "orphan"), result.(machinery.ReleasedObjects).Released())
}

func TestPhaseTeardown_Errors(t *testing.T) {
	broken := errors.New("broken")
	aggregate := []types.PhaseTeardownOption{types.WithAggregatePhaseTeardownErrors()}
	tests := map[string]struct {
		failure error
		options []types.PhaseTeardownOption
		waiting int
	}{
		"the first error ends the step":     {failure: broken, waiting: 1},
		"errors are aggregated on request":  {failure: broken, waiting: 2, options: aggregate},
		"TooManyRequests ends the step too": {failure: apierrors.NewTooManyRequests("slow down", 1), waiting: 1, options: aggregate},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			engine := machinery.NewPhaseEngine(c.engine(), nil)
			phase := types.NewPhase("main", named(t, "a", "b", "c"))
			if _, err := engine.Reconcile(t.Context(), 1, phase); err != nil {
				t.Fatal(err)
			}
			c.before = failOn(test.failure, "b")
			result, err := engine.Teardown(t.Context(), 1, phase, test.options...)
			if !errors.Is(err, test.failure) || result.IsComplete() || len(result.Waiting()) != test.waiting {
				t.Errorf("got %v, %v", result, err)
			}
		})
	}
}

// The validator's dry run of a write is also the one that finds normalized values, unless the write drops a field: the validator has another
// field owner. Here the API server stores each size as 9.
func TestPhaseReconcile_OneDryRunOfAChange(t *testing.T) {
	c := newCluster(t)
	c.afterApply = func(ctx context.Context, server client.Client, obj runtime.ApplyConfiguration) error {
		stored := configMap(t)
		patch := client.RawPatch(apitypes.MergePatchType, []byte(`{"data":{"size":"9"}}`))
		if err := server.Patch(ctx, stored, patch, client.FieldOwner(fieldOwner)); err != nil {
			return err
		}
		obj.(runtime.Unstructured).SetUnstructuredContent(stored.Object)
		return nil
	}
	for _, step := range []struct {
		data, want map[string]any
		requests   []string
	}{
		{map[string]any{"color": "red", "size": "3"}, map[string]any{"color": "red", "size": "3"}, []string{"dry force", "dry create", "create"}},
		{map[string]any{"color": "blue", "size": "3"}, map[string]any{"color": "blue", "size": "9"}, []string{"dry force", "migrate", "apply"}},
		{map[string]any{"color": "blue", "size": "3"}, map[string]any{"color": "blue", "size": "9"}, []string{"dry force"}},
		{map[string]any{"size": "3"}, map[string]any{"size": "9"}, []string{"dry force", "dry force", "migrate", "apply"}},
	} {
		engine := machinery.NewPhaseEngine(c.engine(), validation.NewClusterPhaseValidator(meta.NewDefaultRESTMapper(nil), c)) // without records
		desired := configMap(t)
		desired.Object["data"] = step.data
		if _, err := engine.Reconcile(t.Context(), 1, types.NewPhase("main", []client.Object{desired})); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.requests, c.took()); diff != "" {
			t.Errorf("%v: requests (-want +got):\n%s", step.data, diff)
		}
		if diff := cmp.Diff(step.want, c.get(t, desired).Object["data"]); diff != "" {
			t.Errorf("%v: data (-want +got):\n%s", step.data, diff)
		}
	}
}

// With the option, only writes have dry runs, and the first write of the phase has none.
func TestPhaseReconcile_DryRunsOfWrites(t *testing.T) {
	c := newCluster(t)
	sparing := types.WithoutDryRunOfUnchanged()
	drift := func() {
		c.edit(t, named(t, "b")[0], `{"data":{"color":"blue"}}`)
		c.took()
	}
	for _, step := range []struct {
		before   func()
		options  []types.PhaseReconcileOption
		requests []string
	}{
		{func() {}, []types.PhaseReconcileOption{sparing}, []string{"dry force", "dry create", "dry force", "dry create", "create", "create", "create"}},
		{func() {}, []types.PhaseReconcileOption{sparing}, nil},
		{func() {}, nil, []string{"dry force", "dry force", "dry force"}},
		{drift, []types.PhaseReconcileOption{sparing}, []string{"force"}},
	} {
		step.before()
		engine := machinery.NewPhaseEngine(c.engine(), validation.NewClusterPhaseValidator(meta.NewDefaultRESTMapper(nil), c))
		if _, err := engine.Reconcile(t.Context(), 1, types.NewPhase("main", named(t, "a", "b", "c")), step.options...); err != nil {
			t.Fatal(err)
		}
		equal(t, "requests", step.requests, c.took())
	}
}

// readerWithout is a reader that fails for one name.
type readerWithout struct {
	client.Reader
	name string
}

func (r readerWithout) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == r.name {
		return errFailing
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// The API server could reject the dry run of an object that a reader prepares for the write.
func TestPhaseReconcile_NoDryRunWithoutARead(t *testing.T) {
	c := newCluster(t)
	engine := machinery.NewPhaseEngine(c.engineReading(readerWithout{c.Client, "b"}, nil), validation.NewClusterPhaseValidator(meta.NewDefaultRESTMapper(nil), c))
	result, err := engine.Reconcile(t.Context(), 1, types.NewPhase("main", named(t, "a", "b")), types.WithAggregatePhaseReconcileErrors())
	if !errors.Is(err, errFailing) || result.GetValidationError() != nil {
		t.Errorf("got %v, %v", result.GetValidationError(), err)
	}
	equal(t, "requests", []string{"dry force", "dry create", "create"}, c.took())
}

// failing is an object engine of a program whose errors do not name the object.
type failing struct{ *machinery.ObjectEngine }

var errFailing = errors.New("broken")

func (failing) Reconcile(context.Context, int64, machinery.Object, ...types.ObjectReconcileOption) (machinery.ObjectResult, error) {
	return nil, errFailing
}

func (failing) Teardown(context.Context, int64, machinery.Object, ...types.ObjectTeardownOption) (bool, error) {
	return false, errFailing
}

func TestPhase_ErrorsOfOtherEnginesNameTheObject(t *testing.T) {
	engine := machinery.NewPhaseEngine(failing{newCluster(t).engine()}, nil)
	phase := types.NewPhase("main", named(t, "a"))
	_, reconciling := engine.Reconcile(t.Context(), 1, phase)
	_, tearingDown := engine.Teardown(t.Context(), 1, phase)
	for _, err := range []error{reconciling, tearingDown} {
		if !errors.Is(err, errFailing) || !strings.Contains(err.Error(), types.ToObjectRef(phase.GetObjects()[0]).String()) {
			t.Errorf("got %v, want the object in it", err)
		}
	}
}

// unplanned is an object engine of another module.
type unplanned struct{ engine *machinery.ObjectEngine }

func (u unplanned) Reconcile(ctx context.Context, revision int64, obj machinery.Object, opts ...types.ObjectReconcileOption) (machinery.ObjectResult, error) {
	return u.engine.Reconcile(ctx, revision, obj, opts...)
}

func (u unplanned) Teardown(ctx context.Context, revision int64, obj machinery.Object, opts ...types.ObjectTeardownOption) (bool, error) {
	return u.engine.Teardown(ctx, revision, obj, opts...)
}

func TestPhaseReconcile_OtherEngineValidatesAllObjects(t *testing.T) {
	c := newCluster(t)
	validator := &seen{}
	engine := machinery.NewPhaseEngine(unplanned{c.engine()}, validator)
	for range 2 {
		result, err := engine.Reconcile(t.Context(), 1, types.NewPhase("main", named(t, "a", "b")))
		if err != nil || !result.IsComplete() {
			t.Fatalf("got %v, %v", result, err)
		}
	}
	equal(t, "shown", []string{"a", "b", "a", "b"}, validator.names)
}

func TestPhaseResult_String(t *testing.T) {
	c := newCluster(t, named(t, "foreign")...)
	c.reconcile(t, 1, named(t, "theirs")[0].(*unstructured.Unstructured), ownedBy("two"))
	probe := func(status types.ProbeStatus, messages ...string) types.Prober {
		return types.ProbeFunc(func(client.Object) types.ProbeResult { return types.ProbeResult{Status: status, Messages: messages} })
	}
	phase := types.NewPhaseWithOwner("main", named(t, "new", "foreign", "theirs"), owner("one"), owners).WithReconcileOptions(
		types.WithObjectReconcileOptions(named(t, "new")[0],
			types.WithProbe("Zeta", probe(types.ProbeStatusUnknown)),
			types.WithProbe(types.ProgressProbeType, probe(types.ProbeStatusFalse, "not yet", "really")),
			types.WithProbe("Alpha", probe(types.ProbeStatusTrue)),
			types.WithPaused{}),
	)
	result, err := machinery.NewPhaseEngine(c.engine(), nil).Reconcile(t.Context(), 1, phase)
	must(t, err)
	const want = `Phase "main"
Complete: false
In Transition: true
Objects:
- Object ConfigMap.v1 default/new
  Action (PAUSED): "Created"
  Probes:
  - Alpha: Succeeded
  - Progress: Failed
    - not yet
    - really
  - Zeta: Unknown
- Object ConfigMap.v1 default/foreign
  Action: "Collision"
  Conflicting Owner: nil
  Conflicts:
  - "other":
    .data.color
    .data.size
  Other:
  - "other":
    .data
  Comparison:
  - Removed:
    .metadata.annotations.test.example.com/revision
    .metadata.labels.app.kubernetes.io/managed-by
- Object ConfigMap.v1 default/theirs
  Action: "Collision"
  Conflicting Owner: Secret.v1 two (UID uid-two)
  Comparison:
  - Added:
    .metadata.ownerReferences[uid="uid-two"]
`
	equal(t, "result", want, result.String())
}

func TestObjectResult_IsComplete(t *testing.T) {
	satisfied := types.WithProbe(types.ProgressProbeType, types.ProbeFunc(func(client.Object) types.ProbeResult {
		return types.ProbeResult{Status: types.ProbeStatusTrue}
	}))
	unknown := types.WithProbe(types.ProgressProbeType, types.ProbeFunc(func(client.Object) types.ProbeResult {
		return types.ProbeResult{Status: types.ProbeStatusUnknown}
	}))
	failedOther := types.WithProbe("Other", types.ProbeFunc(func(client.Object) types.ProbeResult {
		return types.ProbeResult{Status: types.ProbeStatusFalse}
	}))
	tests := map[string]struct {
		installed bool
		options   []types.ObjectReconcileOption
		want      bool
	}{
		"complete without probes":                           {want: true},
		"complete with a satisfied progress probe":          {options: options(satisfied), want: true},
		"incomplete with an unknown progress probe":         {options: options(unknown)},
		"probes of other types are ignored":                 {options: options(failedOther), want: true},
		"incomplete if paused before its creation":          {options: options(types.WithPaused{})},
		"complete if paused and as desired":                 {installed: true, options: options(types.WithPaused{}), want: true},
		"incomplete if paused, as desired and not ready":    {installed: true, options: options(types.WithPaused{}, unknown)},
		"complete if paused, as desired and ready":          {installed: true, options: options(types.WithPaused{}, satisfied), want: true},
		"the later of two probes of a type wins":            {options: options(unknown, satisfied), want: true},
		"incomplete if the later probe is unknown":          {options: options(satisfied, unknown)},
		"incomplete if idle with an unknown progress probe": {installed: true, options: options(unknown)},
		"complete if idle with a satisfied progress probe":  {installed: true, options: options(satisfied), want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if test.installed {
				c.reconcile(t, 1, configMap(t))
			}
			if got := c.reconcile(t, 1, configMap(t), test.options...); got.IsComplete() != test.want {
				t.Errorf("complete: %t, want %t:\n%s", got.IsComplete(), test.want, got)
			}
		})
	}
}

// equal fails the test unless two values are equal.
func equal(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
