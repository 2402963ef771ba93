// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
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

func secret(name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	return object
}

// settledPhase returns the result of a complete phase with objects of a name, as they are in the store.
func settledPhase(phase string, action machinery.Action, stored store, names ...string) comparedRevision {
	out := comparedPhase{name: phase}
	for _, name := range names {
		object := secret(name)
		object.UID, object.ResourceVersion = types.UID(stored[name][0]), stored[name][1]
		out.objects = append(out.objects, comparedObject{action: action, object: object, complete: true})
	}
	return comparedRevision{out}
}

// A phase is reconciled again after any change of its objects, in the revision or in the cluster.
func TestEngine_UnchangedPhase(t *testing.T) {
	change := func(e *Engine, name string, to ...string) {
		stored := e.Versions.(store)
		if delete(stored, name); to != nil {
			stored[name] = [2]string(to)
		}
		e.Observe(secret(name))
	}
	for name, test := range map[string]struct {
		change func(e *Engine, rev *loadedRevision)
		want   bool
	}{
		"nothing changes":                    {func(*Engine, *loadedRevision) {}, true},
		"an event repeats what is known":     {func(e *Engine, _ *loadedRevision) { e.Observe(secret("b")) }, true},
		"an object of another phase changes": {func(e *Engine, _ *loadedRevision) { change(e, "other", "3", "30") }, true},
		"an object is modified":              {func(e *Engine, _ *loadedRevision) { change(e, "b", "2", "21") }, false},
		"an object is deleted":               {func(e *Engine, _ *loadedRevision) { change(e, "b") }, false},
		"an object is created again":         {func(e *Engine, _ *loadedRevision) { change(e, "b", "9", "20") }, false},
		"the revision has other objects":     {func(_ *Engine, r *loadedRevision) { r.key = "other" }, false},
		"only controlled objects are kept":   {func(_ *Engine, r *loadedRevision) { r.scope = controlledOnly }, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := store{"a": {"1", "10"}, "b": {"2", "20"}}
			engine, rev := &Engine{Versions: stored}, &loadedRevision{name: "4.22.0-1", key: "key", scope: maintenance}
			engine.record(rev, settledPhase("core", machinery.ActionIdle, stored, "a", "b"), 0)
			test.change(engine, rev)
			for range 2 { // the second comparison relies on the first
				result := engine.unchanged(t.Context(), rev, revision.Phase{Name: "core"})
				if got := result != nil; got != test.want {
					t.Fatalf("unchanged: %t, want %t", got, test.want)
				}
				if test.want && (!result.IsComplete() || len(result.GetPhases()[0].GetObjects()) != 2) {
					t.Errorf("the result is not that of two ready objects: %v", result)
				}
			}
		})
	}
}

// Objects in other namespaces have no events, so each comparison reads them.
func TestEngine_UnchangedReadsObjectsOutsideTheCache(t *testing.T) {
	stored := store{"a": {"1", "10"}}
	engine, rev := &Engine{Versions: stored}, &loadedRevision{name: "4.22.0-1"}
	phase := settledPhase("core", machinery.ActionIdle, stored, "a")
	phase.objects[0].object.Namespace = "kube-system"
	engine.record(rev, phase, 0)
	if engine.unchanged(t.Context(), rev, revision.Phase{Name: "core"}) == nil {
		t.Error("the phase changed without a change of its object")
	}
	stored["a"] = [2]string{"1", "11"}
	if engine.unchanged(t.Context(), rev, revision.Phase{Name: "core"}) != nil {
		t.Error("the change went unnoticed")
	}
}

// In any order of changes, events that arrive later, and reconciles: a phase counts as unchanged only if its objects are
// those of its last reconcile, or the event of the change has not arrived.
func TestEngine_NoChangeGoesUnnoticed(t *testing.T) {
	phases := map[string][]string{"core": {"a", "b"}, "aws": {"c"}}
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		stored := store{"a": {"1", "0"}, "b": {"2", "0"}, "c": {"3", "0"}}
		engine, rev := &Engine{Versions: stored}, &loadedRevision{name: "4.22.0-1"}
		seen := store{} // by the last reconcile of each phase
		var pending []string
		number := 0
		change := func(t *rapid.T) {
			name := rapid.SampledFrom(names).Draw(t, "name")
			number++
			stored[name] = [2]string{stored[name][0], strconv.Itoa(number)}
			pending = append(pending, name)
		}
		deliver := func(t *rapid.T) {
			if len(pending) == 0 {
				t.Skip()
			}
			engine.Observe(secret(pending[0]))
			pending = pending[1:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"change":  change,
			"deliver": deliver,
			"reconcile": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"core", "aws"}).Draw(t, "phase")
				if engine.unchanged(context.Background(), rev, revision.Phase{Name: name}) == nil {
					asOf := engine.changes.now()
					if rapid.Bool().Draw(t, "change before the read") {
						change(t)
					}
					for _, object := range phases[name] {
						seen[object] = stored[object]
					}
					result := settledPhase(name, machinery.ActionIdle, stored, phases[name]...)
					if rapid.Bool().Draw(t, "change after the read") {
						change(t)
						deliver(t)
					}
					engine.record(rev, result, asOf)
					return
				}
				for _, object := range phases[name] {
					if seen[object] != stored[object] && !slices.Contains(pending, object) {
						t.Fatalf("%s has changed from %v to %v", object, seen[object], stored[object])
					}
				}
			},
		})
	})
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
			engine.record(rev, test.result, 0)
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
		engine.record(&loadedRevision{name: name}, settledPhase("core", machinery.ActionIdle, stored, "a"), 0)
	}
	engine.settle("4.22.0-2")
	if len(engine.compared) != 1 || engine.compared["4.22.0-2"].phases == nil {
		t.Errorf("got %v, want only those of 4.22.0-2", engine.compared)
	}
}
