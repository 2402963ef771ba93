// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
)

// TestRead_ObjectsOfPredecessor checks that objects are read with the managed fields that identify their installer, and
// that an absent object or kind is nil.
func TestRead_ObjectsOfPredecessor(t *testing.T) {
	c := server(t)
	settings := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"}}}
	settings.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
	settings.SetName("settings")
	settings.SetLabels(map[string]string{predecessor.ManagedByLabel: predecessor.ManagedBy, predecessor.ComponentLabel: "aws"})
	settings.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: "7"})
	owner := client.FieldOwner(predecessor.FieldOwner)
	if err := c.writer.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(settings), owner); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.writer.Delete(context.WithoutCancel(t.Context()), settings) })

	found, err := c.Read(t.Context(), settings)
	if err != nil || found == nil || predecessor.ActionFor(v1alpha1.OpenShiftNamespaces.Operator, settings, found) != predecessor.Adopt {
		t.Errorf("object of the predecessor: got %v, %v", found, err)
	}
	listed, err := c.List(t.Context(), settings.GroupVersionKind(), predecessor.ManagedByLabel+"="+predecessor.ManagedBy+","+predecessor.ComponentLabel)
	if err != nil || len(listed) != 1 || !predecessor.Owns(listed[0]) {
		t.Errorf("listed %v, %v", listed, err)
	}

	absent, unknown := settings.DeepCopy(), settings.DeepCopy()
	absent.SetName("absent")
	unknown.SetAPIVersion("unknown.example.com/v1")
	for _, o := range []*unstructured.Unstructured{absent, unknown} {
		if found, err := c.Read(t.Context(), o); found != nil || err != nil {
			t.Errorf("%s: %v, %v", o.GetName(), found, err)
		}
	}
	if listed, err := c.List(t.Context(), unknown.GroupVersionKind(), ""); len(listed) > 0 || err != nil {
		t.Errorf("objects of an unknown kind: got %v, %v", listed, err)
	}
}
