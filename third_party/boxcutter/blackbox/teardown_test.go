// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const finalizer = "example.com/wait"

func (b *env) three(owner client.Object) boxcutter.RevisionBuilder {
	return b.revision(1, owner, nil, phase("first", b.configMap("a", "red")),
		phase("second", b.configMap("b", "red"), b.configMap("c", "red")), phase("third", b.configMap("d", "red")))
}

// addFinalizer delays the deletion of an object until it is released.
func (b *env) addFinalizer(name string) {
	b.Helper()
	b.edit(b.configMap(name, ""), `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
}

func (b *env) removeFinalizer(name string) {
	b.Helper()
	b.must(b.user.Patch(b.Context(), b.configMap(name, ""), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	b.catchUpWith(b.configMap(name, ""))
}

// progress is the progress of a teardown.
type progress struct {
	Active        string
	Waiting, Gone []string
	Deleted       []string
}

func TestTeardown_PhasesInReverseOrder(t *testing.T) {
	eachOwnership(t, func(b *env) {
		revision := b.three(b.owner("owner"))
		b.install(revision)
		b.addFinalizer("d")
		b.addFinalizer("b")
		b.requests.take()

		step := func(want progress) {
			b.Helper()
			b.catchUp(revision)
			result := b.teardown(revision)
			active, _ := result.GetActivePhaseName()
			got := progress{Active: active, Waiting: result.GetWaitingPhaseNames(), Gone: result.GetGonePhaseNames(), Deleted: b.deleted()}
			if diff := cmp.Diff(want, got, equateEmpty); diff != "" || result.IsComplete() != (want.Active == "") {
				b.Errorf("progress (-want +got):\n%s\n%s", diff, result)
			}
		}
		step(progress{Active: "third", Waiting: []string{"first", "second"}, Deleted: []string{"d"}})
		step(progress{Active: "third", Waiting: []string{"first", "second"}})
		b.removeFinalizer("d")
		step(progress{Active: "second", Waiting: []string{"first"}, Gone: []string{"third"}, Deleted: []string{"b", "c"}})
		step(progress{Active: "second", Waiting: []string{"first"}, Gone: []string{"third"}})
		b.removeFinalizer("b")
		step(progress{Active: "first", Gone: []string{"second", "third"}, Deleted: []string{"a"}})
		step(progress{Gone: []string{"first", "second", "third"}})
	})
}

var equateEmpty = cmp.Transformer("empty", func(names []string) []string { return slices.Concat([]string{}, names) })

// deleted returns the names in delete requests since the last call.
func (b *env) deleted() []string {
	var out []string
	for _, request := range b.requests.take() {
		if request.verb == "delete" {
			out = append(out, request.path[len(request.path)-1:])
		}
	}
	return out
}

func TestTeardown_DeletesTheObjectThatWasRead(t *testing.T) {
	eachOwnership(t, func(b *env) {
		revision := b.revision(1, b.owner("owner"), nil, phase("main", b.configMap("settings", "red")))
		b.install(revision)
		before := b.get(b.configMap("settings", ""))
		b.requests.take()
		b.teardown(revision)
		requests := slices.DeleteFunc(b.requests.take(), func(r request) bool { return r.verb != "delete" })
		if len(requests) != 1 {
			b.Fatalf("%d delete requests", len(requests))
		}
		var options metav1.DeleteOptions
		b.must(json.Unmarshal([]byte(requests[0].body), &options))
		if options.Preconditions == nil || *options.Preconditions.UID != before.GetUID() || *options.Preconditions.ResourceVersion != before.GetResourceVersion() {
			b.Errorf("preconditions: %+v", options.Preconditions)
		}
	})
}

// A teardown that acts on an outdated object must not delete the current one.
func TestTeardown_KeepsObjectWithNewOwner(t *testing.T) {
	for name, change := range map[string]func(b *env, two client.Object){
		"handed over": func(b *env, two client.Object) {
			b.install(b.revision(2, two, nil, phase("main", b.configMap("settings", "blue"))), boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone))
		},
		"replaced": func(b *env, _ client.Object) {
			b.delete(b.configMap("settings", ""))
			b.create(b.configMap("settings", "blue"))
		},
		"edited": func(b *env, _ client.Object) {
			b.edit(b.configMap("settings", ""), `{"metadata":{"annotations":{"test.example.com/owners":"[]"}}}`)
		},
	} {
		for _, unfiltered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unfiltered reader %t", name, unfiltered), func(t *testing.T) {
				b := newEnv(t, envOptions{ownership: annotation})
				first := b.revision(1, b.owner("one"), nil, phase("main", b.configMap("settings", "red")))
				b.install(first)
				b.options.Reader = frozen{Reader: b.cache, object: b.get(b.configMap("settings", ""))}
				change(b, b.owner("two"))
				if !unfiltered {
					b.options.UnfilteredReader = nil
				}
				b.restart()
				result, err := b.engine.Teardown(t.Context(), first)
				switch {
				case !unfiltered && !apierrors.IsConflict(err):
					t.Errorf("got %v, want a conflict", err)
				case unfiltered && (err != nil || !result.IsComplete()):
					t.Errorf("got %v, want the object to be released\n%s", err, result)
				}
				if got := b.get(b.configMap("settings", "")); got == nil || got.GetDeletionTimestamp() != nil {
					t.Error("the object was deleted")
				}
			})
		}
	}
}

func TestTeardown_AbsentObjects(t *testing.T) {
	eachOwnership(t, func(b *env) {
		gadget := b.object(`{apiVersion: example.com/v1, kind: Gadget, metadata: {name: x, namespace: %s}}`, b.namespace)
		revision := b.revision(1, b.owner("owner"), nil, phase("main", b.configMap("settings", "red"), gadget))
		for _, opts := range [][]boxcutter.RevisionTeardownOption{nil, {types.WithOrphan()}} {
			if result := b.teardown(revision, opts...); !result.IsComplete() {
				b.Errorf("the teardown is not complete:\n%s", result)
			}
		}
		if got := b.requests.writes(); len(got) > 0 {
			b.Errorf("writes: %v", got)
		}
	})
}

func TestTeardown_KeepsObjectsOfOthers(t *testing.T) {
	eachOwnership(t, func(b *env) {
		settings := b.configMap("settings", "red")
		b.create(settings)
		before := b.get(settings)
		revision := b.revision(1, b.owner("owner"), nil, phase("main", settings))
		for _, opts := range [][]boxcutter.RevisionTeardownOption{nil, {types.WithOrphan()}} {
			if result := b.teardown(revision, opts...); !result.IsComplete() {
				b.Errorf("the teardown is not complete:\n%s", result)
			}
		}
		b.unchanged(before)
	})
}

func TestTeardown_NonControllerOwnerIsRemoved(t *testing.T) {
	for _, ownership := range []ownership{native, annotation} {
		t.Run(ownership.name, func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: ownership})
			one, two := b.owner("one"), b.owner("two")
			settings := b.configMap("settings", "red")
			b.install(b.revision(1, one, nil, phase("main", settings)))
			b.install(b.revision(2, two, siblings(one), phase("main", settings)))
			if !isOwner(one, b.get(settings)) {
				t.Fatal("the first owner is no longer an owner, so the test has no effect")
			}
			b.requests.take()
			if result := b.teardown(b.revision(1, one, nil, phase("main", settings))); !result.IsComplete() {
				t.Errorf("the teardown is not complete:\n%s", result)
			}
			b.expectRequests(map[string]int{"patch": 1})
			got := b.get(settings)
			if isOwner(one, got) || !ownership.strategy.IsController(two, got) || got.GetAnnotations()[revisionMark] != "2" {
				t.Errorf("owners: %v, want only the first one removed", got.Object["metadata"])
			}
		})
	}
}

func TestTeardown_OrphanRemovesMetadata(t *testing.T) {
	eachOwnership(t, func(b *env) {
		owner := b.owner("owner")
		settings := b.configMap("settings", "red")
		settings.SetLabels(map[string]string{"app": "web"})
		settings.SetAnnotations(map[string]string{"note": "kept"})
		revision := b.revision(1, owner, nil, phase("main", settings))
		b.install(revision)
		result := b.teardown(revision, types.WithOrphan())
		if !result.IsComplete() {
			b.Errorf("the teardown is not complete:\n%s", result)
		}
		b.isOrphan(settings, owner)
		b.catchUp(revision)
		if result := b.teardown(revision, types.WithOrphan()); !result.IsComplete() {
			b.Errorf("the second teardown is not complete:\n%s", result)
		}
		// The object can be adopted again.
		b.expectActions(b.reconcile(revision), machinery.ActionCollision)
		b.expectActions(b.reconcile(revision, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)), machinery.ActionUpdated)
	})
}

func (b *env) isOrphan(settings *unstructured.Unstructured, owner client.Object) {
	b.Helper()
	got := b.get(settings)
	if got == nil || got.GetDeletionTimestamp() != nil {
		b.Fatal("the object was deleted")
	}
	if diff := cmp.Diff(map[string]string{"app": "web"}, got.GetLabels()); diff != "" {
		b.Errorf("labels (-want +got):\n%s", diff)
	}
	annotations := got.GetAnnotations()
	if annotations["note"] != "kept" || annotations[revisionMark] != "" || owner != nil && isOwner(owner, got) {
		b.Errorf("remaining label or annotations: %v", got.Object["metadata"])
	}
}

// An owner that is deleted with propagation Orphan has a finalizer for it.
func TestTeardown_OwnerDeletedWithOrphan(t *testing.T) {
	for _, ownership := range []ownership{native, annotation} {
		t.Run(ownership.name, func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: ownership})
			owner := b.owner("owner")
			settings := b.configMap("settings", "red")
			settings.SetLabels(map[string]string{"app": "web"})
			settings.SetAnnotations(map[string]string{"note": "kept"})
			b.install(b.revision(1, owner, nil, phase("main", settings)))

			deleted, _ := owner.DeepCopyObject().(client.Object)
			deleted.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
			revision := b.revision(1, deleted, nil, phase("main", settings))
			if result := b.teardown(revision); !result.IsComplete() {
				t.Errorf("the teardown is not complete:\n%s", result)
			}
			b.isOrphan(settings, owner)
			b.must(b.user.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			b.eventually("the owner is gone", func() bool { return b.get(owner) == nil })
			b.isOrphan(settings, owner)
		})
	}
}

func TestTeardown_WriterMakesTheWrites(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	revision := b.revision(1, owner, nil, phase("main", b.configMap("a", "red"), b.configMap("b", "red")))
	b.install(revision)
	b.requests.take()
	orphan := boxcutter.WithPhaseTeardownOptions("main", boxcutter.WithObjectTeardownOptions(b.configMap("a", ""), types.WithOrphan()))
	writer := types.WithTeardownWriter(b.user) // which is not counted
	b.teardown(revision, writer, orphan)
	b.expectRequests(map[string]int{})
	if b.get(b.configMap("b", "")) != nil || b.get(b.configMap("a", "")).GetAnnotations()[revisionMark] != "" {
		t.Error("no writes")
	}
}

func TestTeardown_ContinuesAfterInterruption(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	revision := b.three(b.owner("owner"))
	b.install(revision)
	b.addFinalizer("c")
	b.teardown(revision)
	b.catchUp(revision)
	b.teardown(revision)
	b.catchUp(revision)
	b.restart()
	b.removeFinalizer("c")
	b.removes(revision)
	for _, name := range []string{"a", "b", "c", "d"} {
		if b.get(b.configMap(name, "")) != nil {
			t.Errorf("%s still exists", name)
		}
	}
}

func TestTeardown_DeletesUncachedObjects(t *testing.T) {
	eachOwnership(t, func(b *env) {
		revision := b.revision(1, b.owner("owner"), nil, phase("main", b.configMap("settings", "red")))
		b.install(revision)
		b.edit(b.configMap("settings", ""), `{"metadata":{"labels":{"`+managedByLabel+`":null}}}`)
		if result := b.teardown(revision); result.IsComplete() {
			b.Errorf("the teardown is complete immediately:\n%s", result)
		}
		if b.get(b.configMap("settings", "")) != nil {
			b.Error("the object was not deleted")
		}
	})
}
