// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package install_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/faults"
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

// Guarantee: an uninstall removes objects that a version has adopted, although their watch
// has not reported the adoption. The original boxcutter cannot adopt without the watch: its writes conflict until it has
// seen the last change of the object.
func TestUninstall_WithOutdatedObjects(t *testing.T) {
	h := newHarness(t)
	proxy := h.proxied()
	h.installRelease(core(configMap("settings", "1")), aws(crd("machines", "Machine")))
	proxy.Freeze("/namespaces/" + namespace + "/configmaps")
	h.release(core(configMap("settings", "1")), aws(crd("machines", "Machine"), crd("others", "Other")))
	h.settled("4.22.0-2")
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.uninstalledCompletely("4.22.0-2")
}
