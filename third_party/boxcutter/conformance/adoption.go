// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func adoptionCases() []Case {
	return []Case{
		{"adoption/matrix-annotation", func(t *testing.T, e *Env) { adoptionMatrix(t, e) }},
		{"adoption/matrix-native", func(t *testing.T, e *Env) {
			e.owners = ownerhandling.NewNative(scheme.Scheme)
			adoptionMatrix(t, e)
		}},
		{"adoption/ownerless", adoptionOwnerless},
		{"adoption/keeps-owners", adoptionKeepsOwners},
	}
}

const (
	free    = "no controller"
	own     = "own"
	sibling = "sibling"
	other   = "another controller"
)

var protections = []boxcutter.WithCollisionProtection{
	"", boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionPrevent),
	boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController),
	boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone),
}

// adoptable returns the expected action for an existing object.
func adoptable(kind string, protection boxcutter.WithCollisionProtection) machinery.Action {
	none := boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone)
	ifFree := boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)
	switch {
	case kind == own:
		return machinery.ActionIdle
	case kind == sibling, kind == free && (protection == ifFree || protection == none), kind == other && protection == none:
		return machinery.ActionUpdated
	default:
		return machinery.ActionCollision
	}
}

// adoptionMatrix checks all combinations of 4 protections, 4 kinds of objects and
// paused or not.
func adoptionMatrix(t *testing.T, e *Env) {
	owner, previous, stranger := e.owner("owner"), e.owner("previous"), e.owner("stranger")
	for i, protection := range protections {
		for j, kind := range []string{free, own, sibling, other} {
			for k, paused := range []bool{true, false} {
				name := fmt.Sprintf("c-%d-%d-%d", i, j, k)
				t.Run(fmt.Sprintf("%q %s paused %t", string(protection), kind, paused), func(t *testing.T) {
					inner := *e
					inner.T = t
					inner.adoptOne(name, kind, protection, paused, owner, previous, stranger)
				})
			}
		}
	}
}

func (e *Env) adoptOne(
	name, kind string, protection boxcutter.WithCollisionProtection, paused bool, owner, previous, stranger client.Object,
) {
	desired := e.configMap(name, "red")
	switch kind {
	case free:
		e.create(e.configMap(name, "blue"))
	case own:
		e.reconcile(e.revision(2, owner, phase("main", desired)))
	case sibling:
		e.reconcile(e.revision(1, previous, phase("main", e.configMap(name, "blue"))))
	case other:
		e.reconcile(e.revision(1, stranger, phase("main", e.configMap(name, "blue"))))
	}
	options := []boxcutter.RevisionReconcileOption{protection, boxcutter.WithSiblingOwners([]client.Object{previous})}
	if paused {
		options = append(options, boxcutter.WithPaused{})
	}
	e.writes.take()
	want := adoptable(kind, protection)
	result := e.reconcile(e.revision(2, owner, phase("main", desired)), options...)
	object := e.expect(result, want)
	if object.IsPaused() != paused || object.IsComplete() != (want == machinery.ActionIdle || want == machinery.ActionUpdated && !paused) {
		e.Errorf("paused %t, complete %t\n%s", object.IsPaused(), object.IsComplete(), result)
	}
	written := len(e.writes.take()) > 0
	if written != (want == machinery.ActionUpdated && !paused) {
		e.Errorf("written: %t", written)
	}
	if want == machinery.ActionUpdated && !paused && !e.owners.IsController(owner, e.get(desired)) {
		e.Error("the owner is not the controller of the adopted object")
	}
}

func adoptionOwnerless(t *testing.T, e *Env) {
	for i, protection := range protections {
		name := fmt.Sprintf("free-%d", i)
		e.create(e.configMap(name, "blue"))
		e.expect(e.reconcile(e.revision(1, nil, phase("main", e.configMap(name, "red"))), protection), adoptable(free, protection))
	}
	mine := e.configMap("mine", "red")
	e.reconcile(e.revision(1, nil, phase("main", mine)))
	e.expect(e.reconcile(e.revision(1, nil, phase("main", mine))), machinery.ActionIdle)
	e.expect(e.reconcile(e.revision(2, nil, phase("main", mine))), machinery.ActionUpdated)
}

func adoptionKeepsOwners(t *testing.T, e *Env) {
	owner, previous := e.owner("owner"), e.owner("previous")
	settings := e.configMap("settings", "red")
	e.reconcile(e.revision(1, previous, phase("main", settings)))
	e.reconcile(e.revision(2, owner, phase("main", settings)), boxcutter.WithSiblingOwners([]client.Object{previous}))
	actual := e.get(settings)
	strategy, _ := e.owners.(*ownerhandling.OwnerStrategyAnnotation)
	if !strategy.IsController(owner, actual) || !strategy.IsOwner(previous, actual) || strategy.IsController(previous, actual) {
		t.Errorf("owners: %v", actual.GetAnnotations())
	}
}
