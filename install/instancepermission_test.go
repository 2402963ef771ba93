// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ofGroup returns the manifest of a CRD in another API group.
func ofGroup(manifest, group string) string {
	return strings.ReplaceAll(manifest, "infrastructure.cluster.x-k8s.io", group)
}

// What the shipped permissions let the installer install, they let it remove: CRDs of any API group, by an upgrade and by an uninstall.
// The installer holds the permission to list instances only during a teardown.
func TestTeardown_CRDsOfAnyGroup(t *testing.T) {
	h := newHarness(t)
	metal, addon := ofGroup(crd("ippools", "IPPool"), "ipam.metal3.io"), ofGroup(crd("charts", "Chart"), "charts.example.com")
	h.installRelease(core(metal), aws(addon, ofGroup(crd("used", "Used"), "charts.example.com")))
	used := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "charts.example.com/v1beta1", "kind": "Used", "metadata": map[string]any{"name": "one", "namespace": namespace},
	}}
	h.must(h.Create(t.Context(), used))
	h.release(core(metal), aws())
	h.settled("4.22.0-2")
	if h.object(crdKind, "", "charts.charts.example.com") != nil {
		t.Error("the upgrade has not removed the CRD without instances")
	}
	kept := h.object(crdKind, "", "used.charts.example.com")
	if kept == nil || kept.GetDeletionTimestamp() != nil {
		t.Fatal("the CRD with an instance was deleted")
	}
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.clusterAPIGone()
	if h.object(crdKind, "", "ippools.ipam.metal3.io") != nil {
		t.Error("the uninstall has not removed the CRD without instances")
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		if h.object("rbac.authorization.k8s.io/v1/"+kind, "", "openshift-capi-installer-instances") != nil {
			t.Errorf("%s openshift-capi-installer-instances remains", kind)
		}
	}
	h.must(h.Delete(t.Context(), used))
	h.must(h.Delete(t.Context(), kept))
}
