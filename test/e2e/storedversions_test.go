// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// widgetVersions returns the CRD widgets.example.com with versions, the last of which is stored.
func widgetVersions(names ...string) string {
	var versions []string
	for i, name := range names {
		versions = append(versions, fmt.Sprintf("{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}", name, i == len(names)-1))
	}
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions: [` + strings.Join(versions, ", ") + "]\n"
}

// TestStoredVersions_DroppedWithTheShippedRoles upgrades to a release that drops a version of a CRD in which instances were stored, with and without
// instances. The program may list and write instances only by a role that it creates for the time of the migration.
func TestStoredVersions_DroppedWithTheShippedRoles(t *testing.T) {
	for _, instances := range []int{0, 3} {
		t.Run(fmt.Sprint(instances, " instances"), func(t *testing.T) {
			h := newHarness(t)
			for i, versions := range [][]string{{"v1alpha1"}, {"v1alpha1", "v1beta1"}, {"v1beta1"}} {
				h.release(core("v1.10.0"), aws(fmt.Sprintf("v1.%d.0", i), widgetVersions(versions...)))
				if i == 0 {
					h.start("4.22.0")
				}
				h.settled(fmt.Sprint("4.22.0-", i+1))
				if i == 0 {
					h.widgets(instances)
				}
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			h.must(h.Get(t.Context(), types.NamespacedName{Name: "widgets.example.com"}, crd))
			if stored := crd.Status.StoredVersions; !slices.Equal(stored, []string{"v1beta1"}) {
				t.Errorf("stored versions are %v, want v1beta1 only", stored)
			}
			if found := h.listed(); found != instances {
				t.Errorf("%d instances are left of %d", found, instances)
			}
		})
	}
}

// widgets creates instances in version v1alpha1, and deletes them at the end of the test.
func (h *harness) widgets(number int) {
	h.Helper()
	for i := range number {
		widget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1alpha1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprint("w", i), "namespace": namespace}, "spec": map[string]any{"number": int64(i)},
		}}
		h.must(h.Create(h.Context(), widget))
	}
	h.Cleanup(func() {
		widget := &unstructured.Unstructured{}
		widget.SetAPIVersion("example.com/v1beta1")
		widget.SetKind("Widget")
		h.must(client.IgnoreNotFound(h.DeleteAllOf(context.Background(), widget, client.InNamespace(namespace))))
	})
}

// listed returns the number of instances in version v1beta1.
func (h *harness) listed() int {
	h.Helper()
	widgets := &unstructured.UnstructuredList{}
	widgets.SetAPIVersion("example.com/v1beta1")
	widgets.SetKind("WidgetList")
	h.must(h.List(h.Context(), widgets, client.InNamespace(namespace)))
	return len(widgets.Items)
}
