// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
)

// A teardown deletes an object before those that it depends on.
func TestReversed_ObjectsOfEachPhase(t *testing.T) {
	phase := revision.Phase{Name: "a", Objects: []*unstructured.Unstructured{settings("1", ""), settings("2", ""), settings("3", "")}}
	var got []string
	for _, obj := range reversed(phase).Objects {
		got = append(got, obj.GetName())
	}
	if diff := cmp.Diff([]string{"3", "2", "1"}, got); diff != "" || phase.Objects[0].GetName() != "1" {
		t.Errorf("objects (-want +got), or the argument was changed:\n%s", diff)
	}
}

func TestAsApplied(t *testing.T) {
	object := func(annotations, rest map[string]any) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": annotations}}}
		for key, value := range rest {
			out.Object[key] = value
		}
		return out
	}
	rules := []any{map[string]any{"verbs": []any{"get"}}}
	adopted := map[string]any{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways, "mine": "yes"}
	for name, test := range map[string]struct{ manifest, want *unstructured.Unstructured }{
		"an adopt annotation": {object(adopted, nil), object(map[string]any{"mine": "yes"}, nil)},
		"an aggregated role":  {object(nil, map[string]any{"aggregationRule": map[string]any{}, "rules": rules}), object(nil, map[string]any{"aggregationRule": map[string]any{}})},
		"another role":        {object(nil, map[string]any{"rules": rules}), object(nil, map[string]any{"rules": rules})},
	} {
		before := test.manifest.DeepCopy()
		got := revision.Applied(test.manifest)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		got.SetName("changed by boxcutter")
		if diff := cmp.Diff(before, test.manifest); diff != "" {
			t.Errorf("%s: the plan is changed:\n%s", name, diff)
		}
	}
}

// boxcutter may write into the objects that it gets.
func TestCopied_SharesNoObject(t *testing.T) {
	engine, obj := &Engine{Owners: NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator)}, settings("a", "red")
	phases := []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{obj}}}
	for _, phase := range engine.Owners.copied("4.22.0-1", 1, phases...).GetPhases() {
		for _, given := range phase.GetObjects() {
			given.SetLabels(map[string]string{"x": "y"})
		}
	}
	if obj.GetLabels() != nil {
		t.Error("the plan is changed")
	}
}

// The controllers of other actors are not versions: their objects are not taken from them.
func TestIsVersion(t *testing.T) {
	owner := NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator).ownerOf("4.22.0-1")
	for want, owners := range map[bool][]metav1.OwnerReference{
		true: {{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
		false: {
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: "1-2-3"},
			{APIVersion: "v1", Kind: "ConfigMap", Name: "4.22.0-2", UID: owner.UID},
			{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID},
		},
	} {
		for _, ref := range owners {
			if got := isVersion(ref); got != want {
				t.Errorf("%v is a version: %t, want %t", ref, got, want)
			}
		}
	}
}

// A version that was adopted unchanged controls the objects of its owner, and no others.
func TestEngine_Controlled(t *testing.T) {
	engine := &Engine{Owners: NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator)}
	ours, theirs := settings("ours", "red"), settings("theirs", "red")
	if err := errors.Join(engine.Owners.Set("4.22.0-1", ours), engine.Owners.Set("4.22.0-2", theirs)); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithObjects(ours, theirs).Build()
	first := revision.Part{Owner: "4.22.0-1"}
	rev := Revision{Name: "4.22.0-3", Key: "key", Phases: []revision.Phase{
		{Name: "a", Part: first, Objects: []*unstructured.Unstructured{settings("theirs", ""), settings("gone", "")}}, {Name: "b", Part: first, Objects: []*unstructured.Unstructured{settings("ours", "")}},
	}}
	got, err := engine.Controlled(t.Context(), rev, cluster)
	if err != nil || len(got.Phases) != 1 || got.Phases[0].Name != "b" || got.Key != "" || len(rev.Phases) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	down := interceptor.NewClient(cluster, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
		return apierrors.NewServiceUnavailable("down")
	}})
	if _, err := engine.Controlled(t.Context(), rev, down); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v, want that of the read", err)
	}
}

// objectResult and phaseResult are results of boxcutter.
type objectResult struct {
	machinery.ObjectResult
	action   machinery.Action
	object   *unstructured.Unstructured
	probes   types.ProbeResultContainer
	complete bool
	owner    *metav1.OwnerReference
}

func (o objectResult) Action() machinery.Action                 { return o.action }
func (o objectResult) Object() machinery.Object                 { return o.object }
func (o objectResult) ProbeResults() types.ProbeResultContainer { return o.probes }
func (o objectResult) IsComplete() bool                         { return o.complete }
func (o objectResult) IsPaused() bool                           { return false }
func (o objectResult) ConflictingOwner() (*metav1.OwnerReference, bool) {
	return o.owner, o.owner != nil
}

type phaseResult struct {
	machinery.PhaseResult
	name    string
	objects []machinery.ObjectResult
	invalid *validation.PhaseValidationError
}

func (p phaseResult) GetName() string                                      { return p.name }
func (p phaseResult) GetObjects() []machinery.ObjectResult                 { return p.objects }
func (p phaseResult) GetValidationError() *validation.PhaseValidationError { return p.invalid }
func (p phaseResult) IsComplete() bool                                     { return true }

func TestObjectOf(t *testing.T) {
	engine := &Engine{Owners: NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator)}
	stored := settings("a", "red")
	stored.SetUID("1")
	stored.SetResourceVersion("7")
	stored.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	if err := engine.Owners.Set("4.22.0-1", stored); err != nil {
		t.Fatal(err)
	}
	requirement := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": probe.Compatible, "status": "False"}}}}}
	ref := ReferenceTo(stored)
	probes := func(progress, available types.ProbeResult) types.ProbeResultContainer {
		return types.ProbeResultContainer{boxcutter.ProgressProbeType: progress, availableProbe: available}
	}
	for name, test := range map[string]struct {
		result objectResult
		whole  bool
		want   Object
	}{
		"ready": {objectResult{action: machinery.ActionIdle, object: stored, complete: true, probes: probes(probing.TrueResult(), probing.TrueResult())}, false,
			Object{Reference: ref, UID: "1", Version: "7", Action: Idle, Ready: true, Available: true, Adoptable: true, Owner: VersionOwner("4.22.0-1")}},
		"not ready": {objectResult{action: machinery.ActionCreated, object: stored, probes: probes(probing.FalseResult("0 of 1"), probing.TrueResult())}, false,
			Object{Reference: ref, UID: "1", Version: "7", Action: Created, Reason: "0 of 1", Available: true, Adoptable: true, Owner: VersionOwner("4.22.0-1")}},
		"without a message": {objectResult{action: machinery.ActionUpdated, object: settings("a", ""), probes: probes(probing.TrueResult(), probing.TrueResult())}, false, Object{Reference: ref, Action: Updated, Available: true, Reason: "Updated"}},
		"a collision": {objectResult{action: machinery.ActionCollision, object: settings("a", ""), owner: &metav1.OwnerReference{Kind: "Namespace", Name: "other"}}, false,
			Object{Reference: ref, Action: Collision, Blocked: true, Owner: Owner{"Namespace", "other"}, Actual: settings("a", ""), Reason: "exists and is not managed by the installer (owned by Namespace other)"}},
		"a collision without an owner": {objectResult{action: machinery.ActionCollision, object: settings("a", "")}, false,
			Object{Reference: ref, Action: Collision, Blocked: true, Actual: settings("a", ""), Reason: "exists and is not managed by the installer (no owner)"}},
		"an unmet requirement": {objectResult{action: machinery.ActionIdle, object: requirement, probes: probes(probing.FalseResult("x"), probing.TrueResult())}, true, Object{Action: Idle, Blocked: true, Available: true, Actual: requirement, Reason: "x"}},
	} {
		got := engine.Owners.objectOf(test.result, test.whole)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Actual == test.result.object {
			t.Errorf("%s: the object is shared with boxcutter", name)
		}
	}
}

// A rejection names each object with every cause, and is not complete.
func TestPhaseOf_Rejection(t *testing.T) {
	causes := []error{errors.New("a\nb"), errors.New("c")}
	invalid := &validation.PhaseValidationError{PhaseName: "core", Objects: []validation.ObjectValidationError{{ObjectRef: types.ToObjectRef(settings("a", "")), Errors: causes}}}
	object := invalid.Objects[0]
	for name, phases := range map[string]func() ([]Phase, error){
		"an object as an error": func() ([]Phase, error) {
			return (Owners{}).phasesOf("core", nil, fmt.Errorf("validating: %w", &object))
		},
		"an object as a value": func() ([]Phase, error) { return (Owners{}).phasesOf("core", nil, fmt.Errorf("validating: %w", object)) },
		"in the result": func() ([]Phase, error) {
			return []Phase{(Owners{}).phaseOf(phaseResult{name: "core", invalid: invalid})}, nil
		},
		"as an error": func() ([]Phase, error) {
			return (Owners{}).phasesOf("core", nil, fmt.Errorf("validating: %w", invalid))
		},
	} {
		found, err := phases()
		if err != nil || len(found) != 1 || found[0].Complete || found[0].Rejection == nil {
			t.Errorf("%s: got %+v, %v", name, found, err)
			continue
		}
		if got, want := found[0].Rejection.Error(), "phase core was rejected: ConfigMap a: a; b; c"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if all := found[0].Rejection.Unwrap(); len(all) != 2 || !errors.Is(found[0].Rejection, causes[1]) {
			t.Errorf("%s: causes are %v", name, all)
		}
	}
}

func TestServed_HasNoUnknownKinds(t *testing.T) {
	known, unknown := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Missing"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(known, meta.RESTScopeNamespace)
	if got := served(mapper, sets.New(known, unknown)); !got.Equal(sets.New(known)) {
		t.Errorf("served kinds are %v", got)
	}
}

func TestResult_Verdicts(t *testing.T) {
	ready, waiting := Object{Ready: true, Available: true}, Object{Available: false}
	for name, test := range map[string]struct {
		result              Result
		complete, available bool
	}{
		"all objects are ready":  {Result{Phases: []Phase{{Complete: true, Objects: []Object{ready}}}}, true, true},
		"an object is not ready": {Result{Phases: []Phase{{Complete: true}, {Objects: []Object{ready, waiting}}}}, false, false},
		"an invalid revision":    {Result{Invalid: errors.New("x")}, false, true},
	} {
		if got := test.result.Complete(); got != test.complete {
			t.Errorf("%s: complete %t", name, got)
		}
		if got := test.result.Available(); got != test.available {
			t.Errorf("%s: available %t", name, got)
		}
	}
}

func TestRejection_NamesThePhaseAndItsDefect(t *testing.T) {
	rejection := &Rejection{Phase: "core", Err: errors.New("invalid name")}
	if got := rejection.Error(); !strings.Contains(got, "phase core was rejected: invalid name") {
		t.Errorf("got %q", got)
	}
}

// A phase of which boxcutter returns no result is not complete: a list without phases would count as a complete revision.
func TestPhasesOf_NoResult(t *testing.T) {
	phases, err := Owners{}.phasesOf("core", nil, nil)
	if err != nil || len(phases) != 1 || phases[0].Name != "core" || (Result{Phases: phases}).Complete() {
		t.Errorf("phases %+v, error %v", phases, err)
	}
	down := errors.New("down")
	if phases, err := (Owners{}).phasesOf("core", nil, down); phases != nil || !errors.Is(err, down) {
		t.Errorf("after an error: phases %+v, error %v", phases, err)
	}
}

// deploymentWith returns a Deployment whose condition Available has a status.
func deploymentWith(status string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "capa", "namespace": "x"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": status}}},
	}}
}

// A phase that is rejected, or that was not reached, has no results. Its objects in the cache decide, not the empty list.
func TestAvailable_PhaseWithoutResults(t *testing.T) {
	requirement := &unstructured.Unstructured{}
	requirement.SetGroupVersionKind(probe.CompatibilityRequirement.WithVersion("v1alpha1"))
	rev := Revision{Phases: []revision.Phase{
		{Name: "core", Objects: []*unstructured.Unstructured{deploymentWith("")}},
		{Name: "aws", Objects: []*unstructured.Unstructured{deploymentWith(""), requirement}},
	}}
	core := Phase{Name: "core", Objects: []Object{{Available: true}}}
	rejected := Phase{Name: "aws", Rejection: &Rejection{Phase: "aws"}}
	for name, test := range map[string]struct {
		cached []client.Object
		want   bool
	}{
		"the Deployment is missing":       {nil, false},
		"the Deployment is not available": {[]client.Object{deploymentWith("False")}, false},
		"the Deployment is available":     {[]client.Object{deploymentWith("True")}, true},
	} {
		engine := &Engine{Reader: fake.NewClientBuilder().WithObjects(test.cached...).Build()}
		for _, phases := range [][]Phase{{core, rejected}, {core}} {
			if got := engine.Available(t.Context(), rev, Result{Phases: phases}); got != test.want {
				t.Errorf("%s, with %d phases: available %t, want %t", name, len(phases), got, test.want)
			}
		}
	}
	if (&Engine{}).Available(t.Context(), Revision{}, Result{Phases: []Phase{core, {Objects: []Object{{}}}}}) {
		t.Error("an object that is not available is ignored")
	}
}
