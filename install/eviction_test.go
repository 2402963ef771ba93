// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"
)

// More releases than there are entries never become ready, each with an object of its own, such as a hashed ConfigMap. The way back to the
// installed release and forward to a good one stays open, and nothing of the others is left.
func TestVersions_StuckOnesAreEvicted(t *testing.T) {
	h := newInstallation(t, core(), aws())
	for i := range 20 {
		h.release(provider{name: "cluster-api", kind: "core", manifests: []string{configMap(fmt.Sprint("hash-", i), "1"), stuck("capi")}}, aws())
		h.appears("v1/ConfigMap", namespace, fmt.Sprint("hash-", i))
		if kept := h.object("apps/v1/Deployment", namespace, "capa"); kept == nil {
			t.Fatal("an object of the installed version was deleted")
		}
	}
	h.release(core(), aws())
	h.settled("4.22.0-22")
	h.release(core(configMap("good", "1")), aws())
	h.settled("4.22.0-23")
	if names := strings.Join(h.names(), ", "); names != "ConfigMap good, Deployment capa, Deployment capi" {
		t.Errorf("installed objects are %s", names)
	}
}
