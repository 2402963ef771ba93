// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// ignore sets spec.driftPolicy.
func (h *harness) ignore(entries ...v1alpha1.IgnoredFields) error {
	h.Helper()
	policy, err := json.Marshal(map[string]any{"spec": map[string]any{"driftPolicy": map[string]any{"ignoredFields": entries}}})
	h.must(err)
	return h.Patch(h.Context(), h.clusterAPI(), client.RawPatch(types.MergePatchType, policy))
}

// A field that the drift policy leaves to another actor is not reverted, neither by a reconcile nor by an upgrade; other fields are. The
// policy takes effect at once, also on a contested object, and the cluster stays upgradeable.
func TestDriftPolicy_IgnoredFields(t *testing.T) {
	h := newInstallation(t, core(configMap("settings", "1")), aws())
	stop := h.fight("capi")
	h.reports("InstallerDegraded", "Contested", "Deployment openshift-cluster-api/capi", "spec.driftPolicy")
	h.must(h.ignore(
		v1alpha1.IgnoredFields{Group: "apps", Kind: "Deployment", Name: "capi", Fields: []string{"/spec/replicas"}},
		v1alpha1.IgnoredFields{Kind: "ConfigMap", Name: "missing", Fields: []string{"/data/value"}},
	))
	h.settled("4.22.0-1")
	h.reports("InstallerProgressing", "UnknownEntries", "spec.driftPolicy.ignoredFields[1]: no component has ConfigMap missing")
	h.must(h.ignore(v1alpha1.IgnoredFields{Group: "apps", Kind: "Deployment", Name: "capi", Fields: []string{"/spec/replicas"}}))
	h.reports("InstallerProgressing", "AsExpected", "fields left to other actors by spec.driftPolicy: Deployment openshift-cluster-api/capi (/spec/replicas)")
	h.hasReplicas("capi", 2) // of the other actor
	stop()
	h.wrote.Clear()
	h.reconcileTimes(3)
	if writes := h.otherWrites(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	h.patch("v1/ConfigMap", namespace, "settings", "user", `{"data": {"value": "2"}}`)
	h.becomes("settings", "1")
	h.release(provider{name: "cluster-api", kind: "core", manifests: []string{strings.Replace(deployment("capi", placeholder), "replicas: 1", "replicas: 3\n  minReadySeconds: 1", 1), configMap("settings", "1")}}, aws())
	h.settled("4.22.0-2")
	if got := field(h.object(deploymentKind, namespace, "capi"), "spec", "replicas"); got != int64(2) {
		t.Errorf("an upgrade has set %v replicas", got)
	}
	h.must(h.Delete(t.Context(), h.object(deploymentKind, namespace, "capi")))
	h.hasReplicas("capi", 3) // a new object has the value of the manifest
	h.must(h.ignore())
	h.patch(deploymentKind, namespace, "capi", "user", `{"spec": {"replicas": 2}}`)
	h.hasReplicas("capi", 3) // without the policy, the field is reverted
}

// The API server rejects policies that the installer could not follow.
func TestDriftPolicy_Validation(t *testing.T) {
	h := newHarness(t)
	h.start("4.22.0")
	deployment := v1alpha1.IgnoredFields{Group: "apps", Kind: "Deployment", Name: "capi"}
	for field, valid := range map[string]bool{
		"/spec/replicas": true, "/webhooks/0/clientConfig/caBundle": true, "/metadata/annotations/example.com~1note": true, "/metadata/labels/team": true,
		"": false, "/": false, "spec.replicas": false, "/spec/": false, "/spec/a~2": false, "/kind": false, "/apiVersion": false, "/status/replicas": false, "/metadata/name": false,
		"/metadata": false, "/metadata/labels": false, "/metadata/ownerReferences/0": false,
		"/metadata/labels/app.kubernetes.io~1managed-by": false, "/metadata/annotations/capi-operator.openshift.io~1owners": false,
	} {
		deployment.Fields = []string{field}
		if err := h.ignore(deployment); valid != (err == nil) || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%q: %v", field, err)
		}
	}
	h.must(h.ignore())
}
