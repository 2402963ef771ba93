// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// A release that drops the conversion of a CRD is installed although another actor has injected a CA bundle into it. The API server rejects a
// bundle without a conversion webhook. The same holds in the way back from a release that has introduced the conversion.
func TestUpgrade_DroppedConversionWithInjectedCA(t *testing.T) {
	conversion := crd("machines", "Machine") + `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: webhook, namespace: openshift-cluster-api, path: /convert}}}
`
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))
	_, bundle, err := certificate.NewServing(time.Now().Add(time.Hour), "webhook")
	h.must(err)
	authority := base64.StdEncoding.EncodeToString(bundle)
	for i, inject := range []string{"update", "apply"} {
		h.release(core(), aws(conversion))
		h.settled(fmt.Sprint("4.22.0-", 2+2*i))
		config := map[string]any{"clientConfig": map[string]any{"caBundle": authority}}
		spec := map[string]any{"conversion": map[string]any{"strategy": "Webhook", "webhook": config}}
		switch live := h.object(crdKind, "", machines); inject {
		case "update":
			h.must(unstructured.SetNestedField(live.Object, authority, "spec", "conversion", "webhook", "clientConfig", "caBundle"))
			h.must(h.Update(t.Context(), live, client.FieldOwner("service-ca-operator")))
		case "apply":
			patch := engine.ReferenceTo(live).Object()
			patch.Object["spec"] = spec
			h.must(h.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner("cert-manager-cainjector"), client.ForceOwnership))
		}
		h.release(core(), aws(crd("machines", "Machine")))
		h.settled(fmt.Sprint("4.22.0-", 3+2*i))
		if diff := cmp.Diff(map[string]any{"strategy": "None"}, field(h.object(crdKind, "", machines), "spec", "conversion")); diff != "" {
			t.Errorf("%s: the conversion (-want +got):\n%s", inject, diff)
		}
	}
}

// restores are the ways in which a tool restores an object from a backup. The tool has the identity of the installer, because the admission policy
// on marks would reject its writes: a restore can be older than the policy.
var restores = map[string]func(h *harness, backup *unstructured.Unstructured) error{
	"create": func(h *harness, backup *unstructured.Unstructured) error {
		return h.asInstaller().Create(h.Context(), backup, client.FieldOwner("velero-server"))
	},
	"apply": func(h *harness, backup *unstructured.Unstructured) error {
		return h.asInstaller().Apply(h.Context(), client.ApplyConfigurationFromUnstructured(backup), client.FieldOwner("velero-server"), client.ForceOwnership)
	},
}

// After a restore from a backup, another field manager owns all fields. An event says so, and an upgrade removes what the release has dropped.
func TestRestore_UpgradeRemovesDroppedFields(t *testing.T) {
	for way, restore := range restores {
		t.Run(way, func(t *testing.T) {
			both := strings.Replace(configMap("settings", "1"), "\ndata: {", "\ndata: {dropped: \"yes\", ", 1)
			h := newInstallation(t, core(both), aws())
			h.mode(v1alpha1.Paused)
			h.reports("InstallerProgressing", "Paused")
			backup := h.object("v1/ConfigMap", namespace, "settings")
			for _, generated := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp"} {
				unstructured.RemoveNestedField(backup.Object, "metadata", generated)
			}
			h.must(h.asInstaller().Delete(t.Context(), engine.ReferenceTo(backup).Object()))
			h.must(restore(h, backup))
			h.mode(v1alpha1.Managed)
			h.reportsEvent("RestoreRecognized", "ConfigMap "+namespace+"/settings", "velero-server")
			h.settled("4.22.0-1")
			h.release(core(configMap("settings", "1")), aws())
			h.settled("4.22.0-2")
			if diff := cmp.Diff(map[string]any{"value": "1"}, field(h.object("v1/ConfigMap", namespace, "settings"), "data")); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
			if drift := h.events("DriftCorrected"); drift != nil {
				t.Errorf("the restore counts as drift: %q", drift)
			}
		})
	}
}
