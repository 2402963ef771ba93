// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pkg.package-operator.run/boxcutter/machinery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// Only writes to objects of the current version revert external changes.
func TestDrift_Actions(t *testing.T) {
	var objects []machinery.ObjectResult
	for _, action := range []machinery.Action{
		machinery.ActionCreated, machinery.ActionUpdated, machinery.ActionRecovered, machinery.ActionIdle, machinery.ActionProgressed, machinery.ActionCollision,
	} {
		objects = append(objects, objectOutcome{action: action, object: settings(string(action), "red")})
	}
	paused := objectOutcome{action: machinery.ActionUpdated, object: settings("paused", "red"), paused: true}
	result := onePhase(append(objects, paused)...)
	cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: "4.22.0-1"}}
	want := []status.Event{{
		Reason: status.DriftCorrected, Warning: true,
		Message: "reverted external changes: ConfigMap Created (deleted), ConfigMap Updated (modified), ConfigMap Recovered (modified)",
	}}
	if diff := cmp.Diff(want, driftEvents(cluster, "4.22.0-1", result)); diff != "" {
		t.Errorf("events of the current version (-want +got):\n%s", diff)
	}
	if got := driftEvents(cluster, "4.22.0-2", result); got != nil {
		t.Errorf("events of a rollout: %v, want none", got)
	}
	if got := driftEvents(cluster, "4.22.0-1", onePhase(ready("a"))); got != nil {
		t.Errorf("events without a write: %v, want none", got)
	}
	wantDifferences := []string{
		"ConfigMap Created (deleted)", "ConfigMap Updated (modified)", "ConfigMap Recovered (modified)", "ConfigMap Collision (managed by another owner)", "ConfigMap paused (modified)",
	}
	if diff := cmp.Diff(wantDifferences, differences(result)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}
