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
