// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"testing"

	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

func TestReconcile_InstallThenIdle(t *testing.T) {
	eachOwnership(t, func(b *env) {
		revision := b.revision(1, b.owner("owner"), nil,
			phase("first", b.configMap("one", "red"), b.configMap("two", "green")), phase("second", b.configMap("three", "blue")))
		b.expectActions(b.reconcile(revision), machinery.ActionCreated, machinery.ActionCreated, machinery.ActionCreated)
		b.catchUp(revision)
		b.requests.take()
		result := b.reconcile(revision)
		b.expectActions(result, machinery.ActionIdle, machinery.ActionIdle, machinery.ActionIdle)
		if !result.IsComplete() {
			b.Errorf("the revision is not complete:\n%s", result)
		}
		if got := b.requests.verbs(); len(got) > 0 {
			b.Errorf("a converged revision sent %v", got)
		}
	})
}

func TestRevisionBuilder_OptionsAddUp(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	revision := func() boxcutter.RevisionBuilder {
		return b.revision(1, owner, nil, phase("main", b.configMap("settings", "red")))
	}
	result := b.reconcile(revision().WithReconcileOptions(boxcutter.WithProbe("Ready", ready)).WithReconcileOptions(paused))
	object := result.GetPhases()[0].GetObjects()[0]
	if _, probed := object.ProbeResults()["Ready"]; !probed || !object.IsPaused() || !annotation.strategy.IsController(owner, object.Object()) {
		t.Errorf("want all three options to apply: the owner, the probe and the pause:\n%s", result)
	}
	b.install(revision())
	b.requests.take()
	b.teardown(revision().WithTeardownOptions(types.WithOrphan()).WithTeardownOptions(types.WithTeardownWriter(b.user)))
	b.expectRequests(map[string]int{})
	if got := b.get(b.configMap("settings", "")); got == nil || isOwner(owner, got) {
		t.Errorf("want all three options to apply: the owner, the orphaning and the writer: %v", got)
	}
}
