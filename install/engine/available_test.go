// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
)

// deploymentWith returns a Deployment whose condition Available has a status.
func deploymentWith(status string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "capa", "namespace": "x"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": status}}},
	}}
}

// A phase that is rejected, or that was not reached, has no results. Its objects in the cache decide, not the empty list.
func TestAvailable_PhaseWithoutResults(t *testing.T) {
	requirement := &unstructured.Unstructured{}
	requirement.SetGroupVersionKind(probe.CompatibilityRequirement.WithVersion("v1alpha1"))
	rev := Revision{Phases: []revision.Phase{
		{Name: "core", Objects: []*unstructured.Unstructured{deploymentWith("")}},
		{Name: "aws", Objects: []*unstructured.Unstructured{deploymentWith(""), requirement}},
	}}
	core := Phase{Name: "core", Objects: []Object{{Available: true}}}
	rejected := Phase{Name: "aws", Rejection: &Rejection{Phase: "aws"}}
	for name, test := range map[string]struct {
		cached []client.Object
		want   bool
	}{
		"the Deployment is missing":       {nil, false},
		"the Deployment is not available": {[]client.Object{deploymentWith("False")}, false},
		"the Deployment is available":     {[]client.Object{deploymentWith("True")}, true},
	} {
		engine := &Engine{Reader: fake.NewClientBuilder().WithObjects(test.cached...).Build()}
		for _, phases := range [][]Phase{{core, rejected}, {core}} {
			if got := engine.Available(t.Context(), rev, Result{Phases: phases}); got != test.want {
				t.Errorf("%s, with %d phases: available %t, want %t", name, len(phases), got, test.want)
			}
		}
	}
	if (&Engine{}).Available(t.Context(), Revision{}, Result{Phases: []Phase{core, {Objects: []Object{{}}}}}) {
		t.Error("an object that is not available is ignored")
	}
}
