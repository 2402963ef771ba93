// SPDX-License-Identifier: Apache-2.0

package probing_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pkg.package-operator.run/boxcutter/probing"
)

// A Deployment is complete when its status is about its current generation, it is available, and all its replicas are
// up to date.
func ExampleAnd() {
	arrived := &probing.GroupKindSelector{
		GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"},
		Prober: &probing.ObservedGenerationProbe{Prober: probing.And{
			&probing.ConditionProbe{Type: "Available", Status: "True"},
			&probing.FieldsEqualProbe{FieldA: ".status.updatedReplicas", FieldB: ".status.replicas"},
		}},
	}
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   map[string]any{"name": "capi-controller-manager", "generation": int64(2)},
		"status": map[string]any{
			"observedGeneration": int64(2),
			"replicas":           int64(2),
			"updatedReplicas":    int64(1),
			"conditions":         []any{map[string]any{"type": "Available", "status": "True"}},
		},
	}}

	result := arrived.Probe(deployment)
	fmt.Println(result.Status)
	for _, message := range result.Messages {
		fmt.Println(message)
	}
	// Output:
	// False
	// ".status.updatedReplicas" is 1, ".status.replicas" is 2, want equal values
}

func ExampleNewCELProbe() {
	probe, err := probing.NewCELProbe(`self.status.replicas >= self.spec.minimum`, "too few replicas")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, replicas := range []int64{1, 3} {
		result := probe.Probe(&unstructured.Unstructured{Object: map[string]any{
			"spec":   map[string]any{"minimum": int64(2)},
			"status": map[string]any{"replicas": replicas},
		}})
		fmt.Println(result.Status, result.Messages)
	}
	// Output:
	// False [too few replicas]
	// True []
}
