// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/internal/object"
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

func secret(name string) object.Identity {
	return object.Identity{GroupKind: schema.GroupKind{Kind: "Secret"}, Name: name}
}

// settledPhase returns the result of a complete phase with objects of a name, as they are in the store.
func settledPhase(phase string, action Action, stored store, names ...string) Phase {
	out := Phase{Name: phase, Complete: true}
	for _, name := range names {
		out.Objects = append(out.Objects, Object{
			Reference: Reference{Identity: secret(name), APIVersion: "v1"}, Action: action, Ready: true,
			UID: types.UID(stored[name][0]), Version: stored[name][1],
		})
	}
	return out
}

// A phase is reconciled again after any change of its objects, in the revision or in the cluster.
func TestKeeper_UnchangedPhase(t *testing.T) {
	change := func(k *keeper, name string, to ...string) {
		stored := k.versions.(store)
		if delete(stored, name); to != nil {
			stored[name] = [2]string(to)
		}
		k.changes.Observe(secret(name))
	}
	for name, test := range map[string]struct {
		change func(k *keeper, rev *Revision)
		want   bool
	}{
		"nothing changes":                    {func(*keeper, *Revision) {}, true},
		"an event repeats what is known":     {func(k *keeper, _ *Revision) { k.changes.Observe(secret("b")) }, true},
		"an object of another phase changes": {func(k *keeper, _ *Revision) { change(k, "other", "3", "30") }, true},
		"an object is modified":              {func(k *keeper, _ *Revision) { change(k, "b", "2", "21") }, false},
		"an object is deleted":               {func(k *keeper, _ *Revision) { change(k, "b") }, false},
		"an object is created again":         {func(k *keeper, _ *Revision) { change(k, "b", "9", "20") }, false},
		"the revision has other objects":     {func(_ *keeper, r *Revision) { r.Key = "other" }, false},
		"the revision is partial":            {func(_ *keeper, r *Revision) { r.Key = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := store{"a": {"1", "10"}, "b": {"2", "20"}}
			kept, rev := &keeper{versions: stored, changes: &Changes{Namespaces: cached}}, &Revision{Name: "4.22.0-1", Key: "key"}
			kept.keep(*rev, []Phase{settledPhase("core", Idle, stored, "a", "b")}, 0)
			test.change(kept, rev)
			for range 2 { // the second comparison relies on the first
				result, got := kept.unchanged(t.Context(), *rev, "core")
				if got != test.want {
					t.Fatalf("unchanged: %t, want %t", got, test.want)
				}
				if test.want && (!result.Complete || len(result.Objects) != 2) {
					t.Errorf("the result is not that of two ready objects: %v", result)
				}
			}
		})
	}
}

// Objects in other namespaces have no events, so each comparison reads them.
func TestKeeper_UnchangedReadsObjectsOutsideTheCache(t *testing.T) {
	stored := store{"a": {"1", "10"}}
	kept, rev := &keeper{versions: stored, changes: &Changes{Namespaces: cached}}, Revision{Name: "4.22.0-1", Key: "key"}
	phase := settledPhase("core", Idle, stored, "a")
	phase.Objects[0].Namespace = "kube-system"
	kept.keep(rev, []Phase{phase}, 0)
	if _, unchanged := kept.unchanged(t.Context(), rev, "core"); !unchanged {
		t.Error("the phase changed without a change of its object")
	}
	stored["a"] = [2]string{"1", "11"}
	if _, unchanged := kept.unchanged(t.Context(), rev, "core"); unchanged {
		t.Error("the change went unnoticed")
	}
}

// In any order of changes, events that arrive later, and reconciles: a phase counts as unchanged only if its objects are
// the same as in its last reconcile, or the event of the change has not arrived.
func TestKeeper_NoChangeGoesUnnoticed(t *testing.T) {
	phases := map[string][]string{"core": {"a", "b"}, "aws": {"c"}}
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		stored := store{"a": {"1", "0"}, "b": {"2", "0"}, "c": {"3", "0"}}
		kept, rev := &keeper{versions: stored, changes: &Changes{Namespaces: cached}}, Revision{Name: "4.22.0-1", Key: "key"}
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
			kept.changes.Observe(secret(pending[0]))
			pending = pending[1:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"change":  change,
			"deliver": deliver,
			"reconcile": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"core", "aws"}).Draw(t, "phase")
				if _, unchanged := kept.unchanged(context.Background(), rev, name); !unchanged {
					asOf := kept.changes.Count()
					if rapid.Bool().Draw(t, "change before the read") {
						change(t)
					}
					for _, object := range phases[name] {
						seen[object] = stored[object]
					}
					result := settledPhase(name, Idle, stored, phases[name]...)
					if rapid.Bool().Draw(t, "change after the read") {
						change(t)
						deliver(t)
					}
					kept.keep(rev, []Phase{result}, asOf)
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
func TestKeeper_RecordsOnlySettledPhases(t *testing.T) {
	stored := store{"a": {"1", "10"}}
	offered := settledPhase("core", Idle, stored, "a")
	offered.Objects[0].Adoptable = true
	replaced := settledPhase("core", Idle, stored, "a")
	replaced.Objects[0].Replaced = []string{".spec.replicas"}
	waiting := settledPhase("core", Idle, stored, "a")
	waiting.Complete = false
	for name, test := range map[string]struct {
		result Phase
		want   bool
	}{
		"an idle object":                {settledPhase("core", Idle, stored, "a"), true},
		"an object of a newer revision": {settledPhase("core", Progressed, stored, "a"), true},
		"a created object":              {settledPhase("core", Created, stored, "a"), false},
		"an updated object":             {settledPhase("core", Updated, stored, "a"), false},
		"an object with the annotation": {offered, false},
		"an object with another value":  {replaced, false},
		"an object that is not ready":   {waiting, false},
		"a rejected phase":              {Phase{Name: "core", Rejection: &Rejection{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kept, rev := &keeper{versions: stored, changes: &Changes{Namespaces: cached}}, Revision{Name: "4.22.0-1", Key: "key"}
			kept.keep(rev, []Phase{test.result}, 0)
			if _, got := kept.unchanged(t.Context(), rev, "core"); got != test.want {
				t.Errorf("kept: %t, want %t", got, test.want)
			}
		})
	}
}

func TestWithoutEffect(t *testing.T) {
	read := settings("a", "red")
	read.SetResourceVersion("7")
	seen, reader := &reads{}, recordingReader{fake.NewClientBuilder().WithObjects(read).Build()}
	if err := reader.Get(seen.in(t.Context()), client.ObjectKeyFromObject(read), settings("a", "")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		found Object
		want  Action
	}{
		"a write that changed nothing":     {Object{Action: Updated, Version: "7"}, Idle},
		"a recovery that changed nothing":  {Object{Action: Recovered, Version: "7"}, Idle},
		"a write with effect":              {Object{Action: Updated, Version: "8"}, Updated},
		"a comparison of a paused object":  {Object{Action: Updated, Version: "7", Paused: true}, Updated},
		"a collision":                      {Object{Action: Collision, Version: "7"}, Collision},
		"another object, which is created": {Object{Reference: Reference{Identity: object.Identity{Name: "b"}}, Action: Created, Version: "7"}, Created},
	} {
		if test.found.Name == "" {
			test.found.Identity = object.IdentityOf(read)
		}
		if got := seen.compared([]Phase{{Objects: []Object{test.found}}})[0].Objects[0].Action; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
