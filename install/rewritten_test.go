// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package install_test

import (
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// rewritten is the manifest of a Deployment with values that the API server stores in another form.
func rewritten(name string) string {
	return strings.NewReplacer(
		"containers:\n", "hostNetwork: false\n      containers:\n",
		"name: manager\n", "name: manager\n        resources: {requests: {cpu: 1000m, memory: 1024Mi}, limits: {cpu: \"1.50\"}}\n",
	).Replace(deployment(name, placeholder))
}

// Values that the API server stores in another form are not changes of others, also not after a restart, when nothing is
// known about the form, and while the installer is paused. The original boxcutter writes them after each start.
func TestDrift_ValuesInAnotherForm(t *testing.T) {
	h := newInstallation(t, core(rewritten("rewritten")), aws())
	if cpu := field(h.object(deploymentKind, namespace, "rewritten"), "spec", "template", "spec", "containers", 0, "resources", "requests", "cpu"); cpu != "1" {
		t.Fatalf("the API server stores cpu as %v, want 1", cpu)
	}
	h.stop()
	h.wrote.Clear()
	h.start("4.22.0")
	h.reconcileTimes(2)
	if writes := h.otherWrites(); len(writes) > 0 {
		t.Errorf("writes after a restart: %v", writes)
	}
	h.mode(v1alpha1.Paused)
	h.reports("InstallerProgressing", "Paused", "no drift from version 4.22.0-1")
	h.stop()
	h.start("4.22.0")
	h.reconcileTimes(2)
	h.reports("InstallerProgressing", "Paused", "no drift from version 4.22.0-1")
	if events := h.events("DriftCorrected"); events != nil {
		t.Errorf("events: %q", events)
	}
}
