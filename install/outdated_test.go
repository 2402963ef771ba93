// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package install_test

import "testing"

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
