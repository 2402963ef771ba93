// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/internal/object"
)

// A provider of type runtimeextension brings its registration, with the permissions of the shipped roles.
func TestRuntimeExtension_BringsItsRegistration(t *testing.T) {
	h := newHarness(t)
	kind := strings.NewReplacer("infrastructure.cluster.x-k8s.io", "runtime.cluster.x-k8s.io", "scope: Namespaced", "scope: Cluster").Replace(crd("extensionconfigs", "ExtensionConfig"))
	config := "apiVersion: runtime.cluster.x-k8s.io/v1beta1\nkind: ExtensionConfig\nmetadata: {name: hooks}\n"
	hooks := provider{name: "runtime-extension-hooks", kind: "runtimeextension", manifests: []string{config}}
	h.installRelease(core(kind), aws(), hooks)
	if found := h.object("runtime.cluster.x-k8s.io/v1beta1/ExtensionConfig", "", "hooks"); found == nil || object.GroupKind(found).Group != "runtime.cluster.x-k8s.io" {
		t.Error("the ExtensionConfig does not exist")
	}
	h.release(core(kind), aws())
	h.settled("4.22.0-2")
	if h.object("runtime.cluster.x-k8s.io/v1beta1/ExtensionConfig", "", "hooks") != nil {
		t.Error("the ExtensionConfig of a dropped provider remains")
	}
}
