// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inTheWay are objects that exist before revision 2 is reconciled, with the actions under Prevent, IfNoController and
// None.
var inTheWay = map[string]struct {
	// owned is set if the revision must have an owner.
	owned bool
	// make creates the object, and returns its controller.
	make func(b *env, object *unstructured.Unstructured, sibling client.Object) client.Object
	want [3]machinery.Action
}{
	"without a controller": {
		make: func(b *env, object *unstructured.Unstructured, _ client.Object) client.Object {
			b.create(object)
			return nil
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionUpdated, machinery.ActionUpdated},
	},
	"of another owner": {
		make: func(b *env, object *unstructured.Unstructured, _ client.Object) client.Object {
			stranger := b.createOwner(object.GetName() + "-stranger")
			strategy := b.ownership.strategy
			if strategy == nil {
				strategy = native.strategy
			}
			b.must(strategy.SetControllerReference(stranger, object))
			b.create(object)
			return stranger
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
	"of another owner by owner reference": {
		make: func(b *env, object *unstructured.Unstructured, _ client.Object) client.Object {
			stranger := b.createOwner(object.GetName() + "-stranger")
			b.must(native.strategy.SetControllerReference(stranger, object))
			b.create(object)
			return stranger
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
	"marked and without a controller": {
		owned: true,
		make: func(b *env, object *unstructured.Unstructured, _ client.Object) client.Object {
			object.SetAnnotations(map[string]string{revisionMark: "1"})
			b.create(object)
			return nil
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionCollision},
	},
	"of an older sibling": {
		owned: true, make: installedBySibling(1),
		want: [3]machinery.Action{machinery.ActionUpdated, machinery.ActionUpdated, machinery.ActionUpdated},
	},
	"of a sibling with the same number": {
		owned: true, make: installedBySibling(2),
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionCollision},
	},
	"of a newer sibling": {
		owned: true, make: installedBySibling(3),
		want: [3]machinery.Action{machinery.ActionProgressed, machinery.ActionProgressed, machinery.ActionProgressed},
	},
	"of an older revision of another owner": {
		owned: true,
		make: func(b *env, object *unstructured.Unstructured, _ client.Object) client.Object {
			return installedBySibling(1)(b, object, b.createOwner(object.GetName()+"-stranger"))
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
	"of a newer revision of another owner": {
		owned: true,
		make: func(b *env, object *unstructured.Unstructured, _ client.Object) client.Object {
			return installedBySibling(3)(b, object, b.createOwner(object.GetName()+"-stranger"))
		},
		want: [3]machinery.Action{machinery.ActionCollision, machinery.ActionCollision, machinery.ActionUpdated},
	},
}

func installedBySibling(number int64) func(*env, *unstructured.Unstructured, client.Object) client.Object {
	return func(b *env, object *unstructured.Unstructured, sibling client.Object) client.Object {
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

func TestCollision_ExistingObjects(t *testing.T) {
	eachOwnership(t, func(b *env) {
		for name, situation := range inTheWay {
			if situation.owned && b.ownership.strategy == nil {
				continue
			}
			for i, protection := range protections {
				object := strings.ReplaceAll(name, " ", "-") + "-" + strings.ToLower(string(protection))
				object = strings.ReplaceAll(object, "'", "")
				b.within(name+"/"+string(protection), func(b *env) {
					var sibling client.Object
					if situation.owned {
						sibling = b.createOwner(object + "-sibling")
					}
					controller := situation.make(b, b.configMap(object, "red"), sibling)
					b.meets(b.configMap(object, "blue"), controller, sibling, protection, situation.want[i])
				})
			}
		}
	})
}

// meets reconciles revision 2 with the existing object, first while paused.
func (b *env) meets(settings *unstructured.Unstructured, controller, sibling client.Object, protection boxcutter.WithCollisionProtection, want machinery.Action) {
	b.Helper()
	var siblings []client.Object
	if sibling != nil {
		siblings = append(siblings, sibling)
	}
	owner := b.owner(settings.GetName() + "-owner")
	revision := b.revision(2, owner, siblings, phase("main", settings)).WithReconcileOptions(protection)
	before := b.get(settings)

	paused := b.reconcile(revision, boxcutter.WithPaused{})
	b.expectActions(paused, want)
	if want != machinery.ActionProgressed && paused.IsComplete() {
		b.Errorf("the revision is complete while paused:\n%s", paused)
	}
	b.unchanged(before)

	result := b.reconcile(revision)
	b.expectActions(result, want)
	if want == machinery.ActionUpdated {
		b.took(settings, owner, controller)
		b.catchUp(revision)
		b.expectActions(b.reconcile(revision), machinery.ActionIdle)
		return
	}
	b.unchanged(before)
	b.collides(result, controller, want)
}

// unchanged checks that an object was not written.
func (b *env) unchanged(before *unstructured.Unstructured) {
	b.Helper()
	if diff := cmp.Diff(before, b.get(before)); diff != "" {
		b.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}

// took checks that the object belongs to the owner, and retains its other owners.
func (b *env) took(settings *unstructured.Unstructured, owner, before client.Object) {
	b.Helper()
	got := b.get(settings)
	if got.GetAnnotations()[revisionMark] != "2" || got.GetLabels()[managedByLabel] != b.namespace {
		b.Errorf("the object has no label and annotation: %v", got.Object["metadata"])
	}
	if color, _, _ := unstructured.NestedString(got.Object, "data", "color"); color != "blue" {
		b.Errorf("the object is %s", color)
	}
	if owner == nil {
		return
	}
	if !b.ownership.strategy.IsController(owner, got) {
		b.Errorf("the owner is not the controller: %v", got.Object["metadata"])
	}
	if before != nil && b.ownership.strategy.IsController(before, got) {
		b.Errorf("the previous controller is still the controller: %v", got.Object["metadata"])
	}
	if before != nil && !isOwner(before, got) {
		b.Errorf("the previous controller is no longer an owner: %v", got.Object["metadata"])
	}
}

func isOwner(owner client.Object, object *unstructured.Unstructured) bool {
	return native.strategy.(*ownerhandling.OwnerStrategyNative).IsOwner(owner, object) ||
		annotation.strategy.(*ownerhandling.OwnerStrategyAnnotation).IsOwner(owner, object)
}

// collides checks the result for an object that was not adopted.
func (b *env) collides(result machinery.RevisionResult, controller client.Object, want machinery.Action) {
	b.Helper()
	if want == machinery.ActionProgressed {
		if !result.HasProgressed() || !result.IsComplete() || result.InTransition() {
			b.Errorf("the revision has not progressed:\n%s", result)
		}
		return
	}
	if result.IsComplete() || !result.InTransition() || result.HasProgressed() {
		b.Errorf("the colliding revision is not in transition:\n%s", result)
	}
	collision, ok := result.GetPhases()[0].GetObjects()[0].(machinery.ObjectResultCollision)
	if !ok {
		b.Fatalf("got a %T", result.GetPhases()[0].GetObjects()[0])
	}
	owner, found := collision.ConflictingOwner()
	if found != (controller != nil) || found && owner.UID != controller.GetUID() {
		b.Errorf("conflicting owner: %v, want %v", owner, controller)
	}
}
