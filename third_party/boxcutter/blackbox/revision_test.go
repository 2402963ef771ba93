// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

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

// Another client writes between the read and the write of the engine.
func TestReconcile_UnseenEditIsNotOverwritten(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner, settings := b.owner("owner"), b.configMap("settings", "red")
	b.install(b.revision(1, owner, nil, phase("main", settings)))
	b.options.Reader = frozen{Reader: b.cache, object: b.get(settings)}
	b.options.UnfilteredReader = nil
	b.restart()
	b.edit(settings, `{"data":{"theirs":"new"}}`)
	_, err := b.engine.Reconcile(t.Context(), b.revision(2, owner, nil, phase("main", b.configMap("settings", "blue"))))
	if !apierrors.IsConflict(err) || color(b.get(settings)) != "red" {
		t.Errorf("got %v", err)
	}

	b.options.UnfilteredReader = b.client
	b.restart()
	b.expectActions(b.reconcile(b.revision(2, owner, nil, phase("main", b.configMap("settings", "blue")))), machinery.ActionUpdated)
	data, _, _ := unstructured.NestedStringMap(b.get(settings).Object, "data")
	if data["theirs"] != "new" || data["color"] != "blue" {
		t.Errorf("data: %v", data)
	}
}

// An object without its label is no longer in the cache.
func TestDrift_RestoresLabel(t *testing.T) {
	eachOwnership(t, func(b *env) {
		settings := b.configMap("settings", "red")
		revision := b.revision(1, b.owner("owner"), nil, phase("main", settings))
		b.install(revision)
		b.edit(settings, `{"metadata":{"labels":{"`+managedByLabel+`":null}}}`)
		if result := b.reconcile(revision); !result.IsComplete() {
			b.Errorf("the revision is not complete:\n%s", result)
		}
		if got := b.get(settings).GetLabels()[managedByLabel]; got != b.namespace {
			b.Errorf("the label is %q", got)
		}
	})
}
