// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"strings"
	"testing"

	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
)

var paused = boxcutter.WithPaused{}

// writesNothing reconciles while paused, and checks that there are only dry runs.
func (b *env) writesNothing(revision boxcutter.Revision, want ...machinery.Action) machinery.RevisionResult {
	b.Helper()
	b.requests.take()
	result := b.reconcile(revision, paused)
	b.expectActions(result, want...)
	for verb, n := range b.requests.writes() {
		if !strings.HasPrefix(verb, "dry-run ") {
			b.Errorf("%d requests to %s while paused", n, verb)
		}
	}
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if !object.IsPaused() || !strings.Contains(object.String(), "Action (PAUSED)") {
				b.Errorf("the result does not report the pause:\n%s", object)
			}
		}
	}
	return result
}

func TestPause_ReportsPlannedActions(t *testing.T) {
	eachOwnership(t, func(b *env) {
		one, two := b.owner("one"), b.owner("two")
		settings, more := b.configMap("settings", "red"), b.configMap("more", "red")
		first := b.revision(1, one, siblings(two), phase("main", settings), phase("second", more))

		result := b.writesNothing(first, machinery.ActionCreated)
		if result.IsComplete() || b.get(settings) != nil {
			b.Errorf("the revision is complete while paused, or the object was created:\n%s", result)
		}
		if uid := result.GetPhases()[0].GetObjects()[0].Object().GetUID(); uid == "" {
			b.Error("the result does not have the planned object")
		}

		b.install(first)
		if result := b.writesNothing(first, machinery.ActionIdle, machinery.ActionIdle); !result.IsComplete() {
			b.Errorf("the revision is no longer complete while paused:\n%s", result)
		}

		b.edit(settings, `{"data":{"color":"blue"}}`)
		result = b.writesNothing(first, machinery.ActionRecovered)
		if result.IsComplete() || color(b.get(settings)) != "blue" {
			b.Errorf("the drifted revision is complete while paused, or was reverted:\n%s", result)
		}
		b.edit(settings, `{"data":{"color":null}}`)
		b.writesNothing(first, machinery.ActionUpdated)
		b.install(first)

		second := b.revision(2, two, siblings(one), phase("main", b.configMap("settings", "green")), phase("second", more))
		b.writesNothing(second, machinery.ActionUpdated)
		if got := b.get(settings); got.GetAnnotations()[revisionMark] != "1" || color(got) != "red" {
			b.Errorf("the object was handed over while paused: %v", got.Object)
		}
		b.install(second)
		if b.ownership.strategy == nil {
			// Without an owner, a lower revision number takes an object back.
			if result := b.writesNothing(first, machinery.ActionUpdated); result.HasProgressed() || color(b.get(settings)) != "green" {
				b.Errorf("the revision has progressed or the object was taken back while paused:\n%s", result)
			}
			return
		}
		if result := b.writesNothing(first, machinery.ActionProgressed, machinery.ActionProgressed); !result.HasProgressed() {
			b.Errorf("the revision has not progressed while paused:\n%s", result)
		}
	})
}

func TestPause_OneObjectOrPhase(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	one, two := b.configMap("one", "red"), b.configMap("two", "red")
	main := phase("main", one, two).WithReconcileOptions(boxcutter.WithObjectReconcileOptions(one, paused))
	result := b.reconcile(b.revision(1, b.owner("owner"), nil, main))
	b.expectActions(result, machinery.ActionCreated, machinery.ActionCreated)
	objects := result.GetPhases()[0].GetObjects()
	if b.get(one) != nil || b.get(two) == nil || !objects[0].IsPaused() || objects[1].IsPaused() || result.IsComplete() {
		t.Errorf("want only the first object paused:\n%s", result)
	}
	rest := b.revision(2, b.owner("other"), nil, phase("first", b.configMap("three", "red")), phase("last", b.configMap("four", "red"))).
		WithReconcileOptions(boxcutter.WithPhaseReconcileOptions("last", paused))
	b.expectActions(b.reconcile(rest), machinery.ActionCreated, machinery.ActionCreated)
	if b.get(b.configMap("three", "")) == nil || b.get(b.configMap("four", "")) != nil {
		t.Error("want only the last phase paused")
	}
}

// The dry run of a paused create can need a namespace that the same phase creates.
func TestPause_PhaseWithItsOwnNamespace(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	namespace := b.object(`{apiVersion: v1, kind: Namespace, metadata: {name: %s-more}}`, b.namespace)
	inside := b.configMap("settings", "red")
	inside.SetNamespace(namespace.GetName())
	revision := b.revision(1, nil, nil, phase("main", namespace, inside))
	b.writesNothing(revision, machinery.ActionCreated, machinery.ActionCreated)
	b.removeAtEnd(namespace)
	b.install(revision)
}

func TestPause_ReportsRejection(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	revision := b.revision(1, b.owner("owner"), nil, phase("main", b.object(
		`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 99999}]}}`)))
	result := b.writesNothing(revision)
	if refused := result.GetPhases()[0].GetValidationError(); refused == nil {
		t.Errorf("the revision is not rejected:\n%s", result)
	}
}
