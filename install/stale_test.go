// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/faults"
)

// Paths of the objects that both controllers base their decisions on.
var (
	clusterAPIs = "/clusterapis"
	revisions   = "/namespaces/" + v1alpha1.OpenShiftNamespaces.Operator + "/configmaps"
)

// proxied puts a proxy between the installer and the API server until the test ends.
func (h *harness) proxied() *faults.Proxy {
	h.Helper()
	direct := h.config
	proxy, err := faults.Start(direct)
	h.must(err)
	h.config = rest.CopyConfig(proxy.Config())
	h.config.QPS = -1
	h.config.Wrap(h.countWrites)
	h.Cleanup(func() { // runs before the uninstall of the harness
		proxy.Heal()
		if h.stop != nil {
			h.stop()
		}
		h.config = direct
		h.must(proxy.Close())
	})
	return proxy
}

// created returns the requests since the last call that created an object, except events,
// the ClusterOperator, and the policy that guards the deletion of CRDs.
func (h *harness) created() (found []string) {
	for _, w := range h.requests.take() {
		if w.method == http.MethodPost && !w.dryRun && !strings.HasSuffix(w.path, "/events") &&
			!strings.HasSuffix(w.path, "/clusteroperators") && !strings.Contains(w.path, "/validatingadmissionpolic") &&
			!strings.Contains(w.path, "/selfsubjectrulesreviews") { // a question
			found = append(found, fmt.Sprint(w.path, " ", w.status))
		}
	}
	return found
}

// uninstalledCompletely waits until no object and no revision ConfigMap exists.
func (h *harness) uninstalledCompletely(version string) {
	h.Helper()
	h.eventually("all objects are uninstalled", func() error {
		if h.object("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, version) != nil {
			return fmt.Errorf("revision ConfigMap %s remains", version)
		}
		return h.remaining()
	})
}

// Guarantee: an uninstall completes and creates nothing while the watch of the
// ClusterAPI object lags behind.
func TestUninstall_WithLaggingWatch(t *testing.T) {
	h := newHarness(t)
	proxy := h.proxied()
	h.installRelease(core(configMap("settings", "")), aws(crd("machines", "Machine")))
	proxy.Freeze(clusterAPIs)
	h.requests.take()
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.reconcileAgain() // the deletion itself causes no reconcile until the watch reports it
	h.uninstalledCompletely("4.22.0-1")
	h.reconcileAgain()
	proxy.Thaw()
	h.reconcileAgain()
	if created := h.created(); created != nil {
		t.Errorf("the uninstall created objects: %v", created)
	}
	if names := h.names(); len(names) > 0 {
		t.Errorf("installed after the uninstall: %v", names)
	}
}

// Guarantee: a process that first receives outdated lists, as an API server with a
// stale watch cache serves them, restores nothing of that state.
func TestRestart_WithStaleLists(t *testing.T) {
	h := newHarness(t)
	proxy := h.proxied()
	h.installRelease(core(configMap("only-a", "")), aws(crd("machines", "Machine")))
	h.eventually("the lists are recorded", func() error { return proxy.RecordLists(context.Background()) })
	h.release(core(configMap("only-b", "")), aws(crd("machines", "Machine")))
	h.settled("4.22.0-2")
	h.stop()
	t.Run("after an upgrade", func(t *testing.T) { h.restartStale(t, proxy) })
	h.start("4.22.0")
	h.settled("4.22.0-2")
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.uninstalledCompletely("4.22.0-2")
	h.stop()
	t.Run("after an uninstall", func(t *testing.T) { h.restartStale(t, proxy) })
}

// restartStale starts an installer that receives the recorded lists, from an API
// server without and with streaming lists, and fails the test if it creates or
// installs anything.
func (h *harness) restartStale(t *testing.T, proxy *faults.Proxy) {
	for name, serve := range map[string]func(...string){
		"streaming lists are rejected": proxy.ServeStaleLists,
		"streaming lists are accepted": proxy.ServeStaleStreams,
	} {
		t.Run(name, func(t *testing.T) {
			defer h.reportTo(t)()
			serve(clusterAPIs, revisions)
			proxy.Freeze(clusterAPIs, revisions)
			before, reconciles := fmt.Sprint(h.names()), h.reconciles()
			h.requests.take()
			h.start("4.22.0")
			h.eventually("the installer has reconciled", func() error {
				if h.reconciles() == reconciles {
					return fmt.Errorf("no reconcile")
				}
				return nil
			})
			h.stop()
			proxy.Heal()
			if created := h.created(); created != nil {
				t.Errorf("created: %v", created)
			}
			if after := fmt.Sprint(h.names()); after != before {
				t.Errorf("installed: %s, want %s", after, before)
			}
		})
	}
}
