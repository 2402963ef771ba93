// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// store is a cache with the UIDs and resource versions of objects by name.
type store map[string][2]string

// List is not used.
func (store) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// Get reads an object.
func (s store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, exists := s[key.Name]
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	into.SetUID(types.UID(found[0]))
	into.SetResourceVersion(found[1])
	return nil
}

// settledPhase returns the result of a complete phase with objects of a name, as they are in the store.
func settledPhase(phase string, action machinery.Action, stored store, names ...string) comparedRevision {
	out := comparedPhase{name: phase}
	for _, name := range names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
		object.SetName(name)
		object.SetUID(types.UID(stored[name][0]))
		object.SetResourceVersion(stored[name][1])
		out.objects = append(out.objects, comparedObject{action: action, object: object, complete: true})
	}
	return comparedRevision{out}
}

// A phase is reconciled again after any change of its objects, in the revision or in the cluster.
func TestEngine_UnchangedPhase(t *testing.T) {
	for name, test := range map[string]struct {
		change func(stored store, rev *loadedRevision)
		want   bool
	}{
		"nothing changes":                    {func(store, *loadedRevision) {}, true},
		"an object of another phase changes": {func(s store, _ *loadedRevision) { s["other"] = [2]string{"3", "30"} }, true},
		"an object is modified":              {func(s store, _ *loadedRevision) { s["b"] = [2]string{"2", "21"} }, false},
		"an object is deleted":               {func(s store, _ *loadedRevision) { delete(s, "b") }, false},
		"an object is created again":         {func(s store, _ *loadedRevision) { s["b"] = [2]string{"9", "20"} }, false},
		"the revision has other objects":     {func(_ store, r *loadedRevision) { r.key = "other" }, false},
		"only controlled objects are kept":   {func(_ store, r *loadedRevision) { r.scope = controlledOnly }, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := store{"a": {"1", "10"}, "b": {"2", "20"}}
			engine, rev := &Engine{Versions: stored}, &loadedRevision{name: "4.22.0-1", key: "key", scope: maintenance}
			engine.record(rev, settledPhase("core", machinery.ActionIdle, stored, "a", "b"))
			test.change(stored, rev)
			result := engine.unchanged(t.Context(), rev, revision.Phase{Name: "core"})
			if got := result != nil; got != test.want {
				t.Fatalf("unchanged: %t, want %t", got, test.want)
			}
			if test.want && (!result.IsComplete() || len(result.GetPhases()[0].GetObjects()) != 2) {
				t.Errorf("the result is not that of two ready objects: %v", result)
			}
		})
	}
}

// Results that a later reconcile may change without a change of an object are not kept.
func TestEngine_RecordsOnlySettledPhases(t *testing.T) {
	stored := store{"a": {"1", "10"}}
	offered := settledPhase("core", machinery.ActionIdle, stored, "a")
	offered.objects[0].object.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	for name, test := range map[string]struct {
		result comparedRevision
		want   bool
	}{
		"an idle object":                {settledPhase("core", machinery.ActionIdle, stored, "a"), true},
		"an object of a newer revision": {settledPhase("core", machinery.ActionProgressed, stored, "a"), true},
		"a created object":              {settledPhase("core", machinery.ActionCreated, stored, "a"), false},
		"an updated object":             {settledPhase("core", machinery.ActionUpdated, stored, "a"), false},
		"an object with the annotation": {offered, false},
		"the preflight phase":           {settledPhase(revision.Preflight, machinery.ActionIdle, stored, "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			engine, rev := &Engine{Versions: stored}, &loadedRevision{name: "4.22.0-1", key: "key"}
			engine.record(rev, test.result)
			got := engine.unchanged(t.Context(), rev, revision.Phase{Name: test.result.GetName()}) != nil
			if got != test.want {
				t.Errorf("kept: %t, want %t", got, test.want)
			}
		})
	}
}

// The comparisons of a settled cluster are those of the current version.
func TestEngine_SettleKeepsTheCurrentVersion(t *testing.T) {
	stored := store{"a": {"1", "10"}}
	engine := &Engine{Versions: stored}
	for _, name := range []string{"4.22.0-1", "4.22.0-2"} {
		engine.record(&loadedRevision{name: name}, settledPhase("core", machinery.ActionIdle, stored, "a"))
	}
	engine.settle("4.22.0-2")
	if len(engine.compared) != 1 || engine.compared["4.22.0-2"].phases == nil {
		t.Errorf("got %v, want only those of 4.22.0-2", engine.compared)
	}
}
