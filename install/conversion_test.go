// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// converted returns the manifests of a CRD with a second version, converted by a webhook, and of the webhook's Service.
func converted() []string {
	service := `apiVersion: v1
kind: Service
metadata: {name: webhook, namespace: openshift-cluster-api}
spec: {selector: {a: b}, ports: [{port: 443}]}
`
	return []string{fixture.CRD("machines", "Machine", fixture.Conversion, "v1beta1", "v1beta2"), service}
}

// A retained CRD can be listed in each served version after its provider is removed, by an uninstall or an upgrade, and a namespace with
// an instance can be deleted, although the conversion webhook is gone. The next installation restores the webhook.
func TestRetainedCRD_EndsItsConversion(t *testing.T) {
	for name, test := range map[string]struct{ remove, restore func(h *harness) }{
		"uninstall": {
			func(h *harness) { h.must(h.Delete(h.Context(), h.clusterAPI())); h.clusterAPIGone() },
			func(h *harness) { h.reapply() },
		},
		"upgrade": {
			func(h *harness) {
				h.release(core(), aws())
				h.settled("4.22.0-3")
				h.reportsEvent("CRDsKept", "4.22.0-2", machines)
				h.reports("InstallerProgressing", "AsExpected", "retained because of their instances: "+machines)
			},
			func(h *harness) { webhook := h.converts(); h.release(core(), aws(webhook.manifests()...)) },
		},
	} {
		t.Run(name, func(t *testing.T) { endsItsConversion(t, test.remove, test.restore) })
	}
}

func endsItsConversion(t *testing.T, remove, restore func(h *harness)) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))
	stuck := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stuck-" + strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:])}}
	h.must(h.Create(t.Context(), stuck))
	one := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Machine",
		"metadata": map[string]any{"name": "one", "namespace": stuck.Name}, "spec": map[string]any{"size": "large"},
	}}
	h.must(h.Create(t.Context(), one))
	webhook := h.converts()
	h.release(core(), aws(webhook.manifests()...))
	h.settled("4.22.0-2")
	webhook.fails("no answer")
	if strategy, _, _ := unstructured.NestedString(h.object(crdKind, "", machines).Object, "spec", "conversion", "strategy"); strategy != "Webhook" {
		t.Fatalf("the conversion strategy of the installed CRD is %q", strategy)
	}
	h.stop()
	h.start("4.22.0")
	h.reconcileTimes(2) // it searches for objects of unknown versions, and nothing answers the webhook
	h.reports("InstallerDegraded", "AsExpected")
	remove(h)
	for _, version := range []string{"v1beta1", "v1beta2"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(one.GroupVersionKind().GroupKind().WithVersion(version))
		list.SetKind(list.GetKind() + "List")
		h.eventually("the instances can be listed in "+version, func() error {
			if err := h.List(t.Context(), list, client.InNamespace(stuck.Name)); err != nil {
				return err
			}
			if len(list.Items) != 1 || fmt.Sprint(list.Items[0].Object["spec"]) != "map[size:large]" {
				return fmt.Errorf("instances are %v", list.Items)
			}
			return nil
		})
	}
	h.must(h.Delete(t.Context(), stuck))
	h.disappears("v1/Namespace", "", stuck.Name)
	restore(h)
	h.eventually("the webhook is restored", func() error {
		restored := h.object(crdKind, "", machines)
		strategy, _, _ := unstructured.NestedString(restored.Object, "spec", "conversion", "strategy")
		if strategy != "Webhook" || restored.GetAnnotations()[v1alpha1.OwnersAnnotation] == "" {
			return fmt.Errorf("strategy %q, annotations %v", strategy, restored.GetAnnotations())
		}
		return nil
	})
}
