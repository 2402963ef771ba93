// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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

// A release whose core provider does not call the handlers of a registered Runtime Extension waits for the administrator.
func TestRuntimeExtension_HooksAreCalledAfterAnUpgrade(t *testing.T) {
	h := newHarness(t)
	kind := strings.NewReplacer("infrastructure.cluster.x-k8s.io", "runtime.cluster.x-k8s.io", "scope: Namespaced", "scope: Cluster").Replace(crd("extensionconfigs", "ExtensionConfig"))
	calls := func(hooks string) provider {
		return core(strings.Replace(kind, "metadata: {", "metadata: {annotations: {"+v1alpha1.RuntimeHooksAnnotation+": "+hooks+"}, ", 1))
	}
	const v1, v2 = "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hooks.runtime.cluster.x-k8s.io/v1beta1"
	h.installRelease(calls(v1), aws())
	h.add("{apiVersion: runtime.cluster.x-k8s.io/v1beta1, kind: ExtensionConfig, metadata: {name: site}, status: {handlers: [{name: create.site, requestHook: {apiVersion: " + v1 + ", hook: BeforeClusterCreate}}]}}")

	h.release(calls(v2), aws(configMap("settings", "1")))
	h.reports("InstallerDegraded", "RiskNotAccepted", "ExtensionConfig site", "create.site (BeforeClusterCreate of "+v1+")", `"acceptedRisks":[{"name":"UncalledRuntimeHook","release":"4.22.0"}]`)
	if h.object("v1/ConfigMap", namespace, "settings") != nil {
		t.Error("an object was written")
	}
	h.release(calls(v1+" "+v2), aws(configMap("settings", "1")))
	h.settled("4.22.0-3")
	h.release(calls(v2), aws(configMap("settings", "2")))
	h.reports("InstallerDegraded", "RiskNotAccepted", "ExtensionConfig site")
	h.accept(v1alpha1.AcceptedRisk{Name: v1alpha1.UncalledRuntimeHook, Release: "4.22.0"})
	h.settled("4.22.0-4")
	config := h.object("runtime.cluster.x-k8s.io/v1beta1/ExtensionConfig", "", "site")
	if handlers, _, _ := unstructured.NestedSlice(config.Object, "status", "handlers"); len(handlers) != 1 {
		t.Errorf("the ExtensionConfig has changed: %v", config)
	}
}
