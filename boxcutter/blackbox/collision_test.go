// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inTheWay are objects that are there already when a revision with number 2
// comes, with what becomes of them under Prevent, IfNoController and None.
var inTheWay = map[string]struct {
	// owned says that it takes an owner for the situation to arise.
	owned bool
	// make creates the object, and returns who controls it.
	make func(b *bed, object *unstructured.Unstructured, sibling client.Object) client.Object
	want [3]machinery.Action
}{
	"nobody's": {
		make: func(b *bed, object *unstructured.Unstructured, _ client.Object) client.Object {
			b.create(object)
			return nil
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionUpdated, machinery.ActionUpdated},
	},
	"a stranger's": {
		make: func(b *bed, object *unstructured.Unstructured, _ client.Object) client.Object {
			stranger := b.anybody(object.GetName() + "-stranger")
			strategy := b.owning.strategy
			if strategy == nil {
				strategy = native.strategy
			}
			b.must(strategy.SetControllerReference(stranger, object))
			b.create(object)
			return stranger
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
	"a stranger's by owner reference": {
		make: func(b *bed, object *unstructured.Unstructured, _ client.Object) client.Object {
			stranger := b.anybody(object.GetName() + "-stranger")
			b.must(native.strategy.SetControllerReference(stranger, object))
			b.create(object)
			return stranger
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
	"marked and without a controller": {
		owned: true,
		make: func(b *bed, object *unstructured.Unstructured, _ client.Object) client.Object {
			object.SetAnnotations(map[string]string{revisionMark: "1"})
			b.create(object)
			return nil
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionCollision},
	},
	"an older sibling's": {
		owned: true, make: installedBySibling(1),
		want: [3]machinery.Action{machinery.ActionUpdated, machinery.ActionUpdated, machinery.ActionUpdated},
	},
	"a sibling's of the same number": {
		owned: true, make: installedBySibling(2),
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionCollision},
	},
	"a newer sibling's": {
		owned: true, make: installedBySibling(3),
		want: [3]machinery.Action{machinery.ActionProgressed, machinery.ActionProgressed, machinery.ActionProgressed},
	},
	"an older stranger's revision": {
		owned: true,
		make: func(b *bed, object *unstructured.Unstructured, _ client.Object) client.Object {
			return installedBySibling(1)(b, object, b.anybody(object.GetName()+"-stranger"))
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
	"a newer stranger's revision": {
		owned: true,
		make: func(b *bed, object *unstructured.Unstructured, _ client.Object) client.Object {
			return installedBySibling(3)(b, object, b.anybody(object.GetName()+"-stranger"))
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
}

func installedBySibling(number int64) func(*bed, *unstructured.Unstructured, client.Object) client.Object {
	return func(b *bed, object *unstructured.Unstructured, sibling client.Object) client.Object {
		b.Helper()
		b.install(b.revision(number, sibling, nil, phase("main", object)))
		return sibling
	}
}

var protections = [3]boxcutter.WithCollisionProtection{
	boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionPrevent),
	boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController),
	boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone),
}

func TestAnObjectThatIsThereAlready(t *testing.T) {
	eachOwning(t, func(b *bed) {
		for name, situation := range inTheWay {
			if situation.owned && b.owning.strategy == nil {
				continue
			}
			for i, protection := range protections {
				object := strings.ReplaceAll(name, " ", "-") + "-" + strings.ToLower(string(protection))
				object = strings.ReplaceAll(object, "'", "")
				b.within(name+"/"+string(protection), func(b *bed) {
					var sibling client.Object
					if situation.owned {
						sibling = b.anybody(object + "-sibling")
					}
					controller := situation.make(b, b.configMap(object, "red"), sibling)
					b.meets(b.configMap(object, "blue"), controller, sibling, protection, situation.want[i])
				})
			}
		}
	})
}

// meets has revision 2 meet the object, first while paused.
func (b *bed) meets(settings *unstructured.Unstructured, controller, sibling client.Object, protection boxcutter.WithCollisionProtection, want machinery.Action) {
	b.Helper()
	var siblings []client.Object
	if sibling != nil {
		siblings = append(siblings, sibling)
	}
	owner := b.owner(settings.GetName() + "-owner")
	revision := b.revision(2, owner, siblings, phase("main", settings)).WithReconcileOptions(protection)
	before := b.get(settings)

	paused := b.reconcile(revision, boxcutter.WithPaused{})
	b.acts(paused, want)
	if want != machinery.ActionProgressed && paused.IsComplete() {
		b.Errorf("it is complete while paused:\n%s", paused)
	}
	b.unchanged(before)

	result := b.reconcile(revision)
	b.acts(result, want)
	if want == machinery.ActionUpdated {
		b.took(settings, owner, controller)
		b.catchUp(revision)
		b.acts(b.reconcile(revision), machinery.ActionIdle)
		return
	}
	b.unchanged(before)
	b.collides(result, controller, want)
}

// unchanged checks that nothing was written to an object.
func (b *bed) unchanged(before *unstructured.Unstructured) {
	b.Helper()
	if diff := cmp.Diff(before, b.get(before)); diff != "" {
		b.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}

// took checks that the object is the owner's now, and still has those it had.
func (b *bed) took(settings *unstructured.Unstructured, owner, before client.Object) {
	b.Helper()
	got := b.get(settings)
	if got.GetAnnotations()[revisionMark] != "2" || got.GetLabels()[managedByLabel] != b.namespace {
		b.Errorf("the object is not marked: %v", got.Object["metadata"])
	}
	if color, _, _ := unstructured.NestedString(got.Object, "data", "color"); color != "blue" {
		b.Errorf("the object is %s", color)
	}
	if owner == nil {
		return
	}
	if !b.owning.strategy.IsController(owner, got) {
		b.Errorf("the owner is not the controller: %v", got.Object["metadata"])
	}
	if before != nil && b.owning.strategy.IsController(before, got) {
		b.Errorf("the one before is the controller still: %v", got.Object["metadata"])
	}
	if before != nil && !isOwner(before, got) {
		b.Errorf("the one before is no owner any more: %v", got.Object["metadata"])
	}
}

func isOwner(owner client.Object, object *unstructured.Unstructured) bool {
	return native.strategy.(*ownerhandling.OwnerStrategyNative).IsOwner(owner, object) ||
		annotation.strategy.(*ownerhandling.OwnerStrategyAnnotation).IsOwner(owner, object)
}

// collides checks what is said about an object that was not taken.
func (b *bed) collides(result machinery.RevisionResult, controller client.Object, want machinery.Action) {
	b.Helper()
	if want == machinery.ActionProgressed {
		if !result.HasProgressed() || !result.IsComplete() || result.InTransition() {
			b.Errorf("the revision has not progressed:\n%s", result)
		}
		return
	}
	if result.IsComplete() || !result.InTransition() || result.HasProgressed() {
		b.Errorf("a collision is not in transition:\n%s", result)
	}
	collision, ok := result.GetPhases()[0].GetObjects()[0].(machinery.ObjectResultCollision)
	if !ok {
		b.Fatalf("the result is a %T", result.GetPhases()[0].GetObjects()[0])
	}
	owner, found := collision.ConflictingOwner()
	if found != (controller != nil) || found && owner.UID != controller.GetUID() {
		b.Errorf("the conflicting owner is %v, want %v", owner, controller)
	}
}

func TestAnObjectThatTheCacheDoesNotShowIsAnErrorWithoutAnotherReader(t *testing.T) {
	b := newBed(t, bedOptions{owning: annotation, engine: func(o *boxcutter.RevisionEngineOptions) { o.UnfilteredReader = nil }})
	settings := b.configMap("settings", "red")
	b.create(settings)
	revision := b.revision(1, b.owner("owner"), nil, phase("main", settings)).WithReconcileOptions(protections[2])
	_, err := b.engine.Reconcile(t.Context(), revision)
	collision, ok := errors.AsType[*machinery.CreateCollisionError](err)
	if !ok || collision.Object().GetName() != "settings" {
		t.Errorf("got %v, want a *CreateCollisionError", err)
	}
}

// An object may be shown by the cache and be somebody else's all the same.
func TestAnObjectWithOurLabelOnlyIsNobodys(t *testing.T) {
	eachOwning(t, func(b *bed) {
		settings := b.configMap("settings", "red")
		settings.SetLabels(map[string]string{managedByLabel: b.namespace})
		b.create(settings)
		revision := b.revision(1, b.owner("owner"), nil, phase("main", b.configMap("settings", "blue")))
		b.eventually("the cache shows it", func() bool { return b.read(b.cache, settings) != nil })
		b.acts(b.reconcile(revision), machinery.ActionCollision)
		b.acts(b.reconcile(revision, protections[1]), machinery.ActionUpdated)
	})
}

func TestAnObjectThatWasDeletedIsCreatedAgain(t *testing.T) {
	eachOwning(t, func(b *bed) {
		settings := b.configMap("settings", "red")
		revision := b.revision(1, b.owner("owner"), nil, phase("main", settings))
		b.install(revision)
		before := b.get(settings)
		b.delete(settings)
		b.acts(b.reconcile(revision), machinery.ActionCreated)
		if got := b.get(settings); got.GetUID() == before.GetUID() {
			b.Error("it is the same object")
		}
	})
}

func TestCollisionProtectionOfOneObjectAndPhase(t *testing.T) {
	b := newBed(t, bedOptions{owning: annotation})
	one, two, three := b.configMap("one", "red"), b.configMap("two", "red"), b.configMap("three", "red")
	for _, object := range []*unstructured.Unstructured{one, two, three} {
		b.create(object)
	}
	adopt := boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)
	first := phase("first", one, two).WithReconcileOptions(boxcutter.WithObjectReconcileOptions(one, adopt))
	b.acts(b.reconcile(b.revision(1, b.owner("owner"), nil, first)), machinery.ActionUpdated, machinery.ActionCollision)
	second := b.revision(1, b.owner("other"), nil, phase("second", three)).
		WithReconcileOptions(boxcutter.WithPhaseReconcileOptions("second", adopt))
	b.acts(b.reconcile(second), machinery.ActionUpdated)
}
