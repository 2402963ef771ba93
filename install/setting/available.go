// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Gate is a feature gate that can be set.
type Gate struct {
	Name string `json:"name"`
	// Default is the value in the manifests, "true" or "false".
	Default string `json:"default"`
	// Deployment is the name of the Deployment with the argument --feature-gates.
	Deployment string `json:"deployment"`
}

// Gates returns the feature gates in the arguments of a component's Deployments.
func Gates(objects []*unstructured.Unstructured) (gates []Gate) {
	for _, obj := range deploymentsOf(objects) {
		for _, container := range object.MapsAt(object.PodSpec(obj), "containers") {
			for _, gate := range featureGates(container) {
				name, value, _ := strings.Cut(gate, "=")
				gates = append(gates, Gate{name, value, obj.GetName()})
			}
		}
	}
	return gates
}

// Deployments returns the names of a component's Deployments.
func Deployments(objects []*unstructured.Unstructured) (names []string) {
	for _, obj := range deploymentsOf(objects) {
		names = append(names, obj.GetName())
	}
	return names
}
