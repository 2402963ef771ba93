// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fight sets the replicas of a Deployment each time that the installer has reverted them, until stop is called.
func (h *harness) fight(name string) (stop func()) {
	patch := []byte(`{"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}}`)
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			deployment := h.object(deploymentKind, namespace, name) //nolint:contextcheck // reads with the context of the test
			if field(deployment, "spec", "replicas") != int64(2) {
				_ = h.Patch(ctx, deployment, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("fighter"), client.ForceOwnership)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// hasReplicas waits until a Deployment has a number of replicas.
func (h *harness) hasReplicas(name string, want int64) {
	h.Helper()
	h.eventually(fmt.Sprintf("Deployment %s has %d replicas", name, want), func() error {
		if found := field(h.object(deploymentKind, namespace, name), "spec", "replicas"); found != want {
			return fmt.Errorf("it has %v", found)
		}
		return nil
	})
}

// injectCA is an annotation that makes a controller write an object.
const injectCA = "cert-manager.io/inject-ca-from"

// annotate sets the annotation of a Deployment, as JSON; null removes it.
func (h *harness) annotate(name, value string) {
	h.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %s}}}`, injectCA, value)
	h.must(h.Patch(h.Context(), h.object("apps/v1/Deployment", namespace, name), client.RawPatch(types.MergePatchType, patch)))
}

// An administrator annotates a Deployment for a controller that then fights, and removes the annotation that the condition names: the installer
// reverts the controller's last value at once.
func TestDrift_FightEndsWithAnnotation(t *testing.T) {
	h := newInstallation(t, core(), aws())
	h.annotate("capi", `"a/b"`)
	stop := h.fight("capi")
	h.reports("InstallerDegraded", "Contested", "Deployment openshift-cluster-api/capi", ".spec.replicas", "annotated "+injectCA)
	h.hasReplicas("capi", 2)
	stop()
	h.annotate("capi", "null")
	removed := time.Now()
	h.hasReplicas("capi", 1)
	if waited := time.Since(removed); waited > time.Minute { // the pause has two
		t.Errorf("the installer has reverted it after %s", waited)
	}
}

// A field manager that restores its value after each revert causes few writes and events. The condition names the field and the manager, and
// Available stays True.
func TestDrift_FightingManager(t *testing.T) {
	h := newInstallation(t, core(), aws())
	writes, events := h.writes.Load(), len(h.events(""))
	stop := h.fight("capi")
	counted := func() (written int64, emitted int) {
		time.Sleep(time.Minute)
		written, emitted = h.writes.Load()-writes, len(h.events(""))-events
		writes, events = writes+written, events+emitted
		if !meta.IsStatusConditionTrue(h.clusterAPI().Status.Conditions, "Available") {
			t.Errorf("Available is not True:\n%s", h.conditions())
		}
		return written, emitted
	}
	first, emitted := counted()
	second, later := counted()
	stop()
	t.Logf("writes in the first minute: %d, in the second: %d; events: %d and %d", first, second, emitted, later)
	if second*5 > first || emitted > 10 || later > 0 { // the events of the first minute include each change of Available: it follows the replicas
		t.Errorf("writes in the first minute: %d, in the second: %d; events: %d and %d", first, second, emitted, later)
	}
	h.reports("InstallerDegraded", "Contested", "Deployment openshift-cluster-api/capi", ".spec.replicas", `"fighter"`)
	if available := meta.FindStatusCondition(h.clusterAPI().Status.Conditions, "Available"); strings.Contains(available.Message, "unavailable") {
		t.Errorf("Available is %v", available)
	}
}

// The same holds while a version is rolled out: a Deployment that does not become ready is reverted three times, and not without end.
func TestRollout_FightingManager(t *testing.T) {
	h := newHarness(t)
	h.release(provider{name: "cluster-api", kind: "core", manifests: []string{stuck("capi")}}, aws())
	h.start("4.22.0")
	h.appears(deploymentKind, namespace, "capi")
	stop := h.fight("capi")
	h.reports("InstallerDegraded", "Contested", "Deployment openshift-cluster-api/capi", ".spec.replicas", `"fighter"`)
	before := h.writes.Load()
	time.Sleep(20 * time.Second)
	if written := h.writes.Load() - before; written > 20 {
		t.Errorf("%d writes in 20 seconds while the reverts pause", written)
	}
	stop()
}
