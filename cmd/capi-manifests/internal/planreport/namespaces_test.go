// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestNamespaces(t *testing.T) {
	settings := []v1alpha1.ComponentSettings{{Name: "a", Namespace: "capa-system"}, {Name: "b"}, {Name: "c", Namespace: "capi-system"}, {Name: "d", Namespace: "capa-system"}}
	found := Namespaces(extractor.Kubernetes, nil, settings)
	if got := found.Providers(); !slices.Equal(got, []string{"capi-system", "capa-system"}) {
		t.Errorf("from the settings: %v", got)
	}
	if got := Namespaces(extractor.Kubernetes, []string{"x", "y"}, settings); !slices.Equal(got.Providers(), []string{"x", "y"}) || got.Operator != "capi-installer-system" {
		t.Errorf("given: %v", got)
	}
	role := func(namespace string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Role", "metadata": map[string]any{"name": "a", "namespace": namespace}}}
	}
	var names []string
	for _, o := range inAll([]*unstructured.Unstructured{role("capi-installer-system"), role("capi-system")}, found, "capi-system") {
		names = append(names, o.GetNamespace())
	}
	if want := []string{"capi-installer-system", "capi-system", "capa-system"}; !slices.Equal(names, want) {
		t.Errorf("roles in %v, want %v", names, want)
	}
}
