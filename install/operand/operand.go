// SPDX-License-Identifier: Apache-2.0

// Package operand decides, from bundles in memory, which providers a cluster
// gets and what they look like there. It is pure: values in, values out.
//
// Select takes the bundles of a release's images and keeps those for the
// platform of the cluster, in install order, if nothing that is needed is
// missing. Render makes objects of them.
package operand

import (
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// Operand is one provider as it will be installed.
type Operand struct {
	Name      string
	Type      extractor.ProviderType
	Version   string
	ContentID digest.Digest
	Origin    extractor.Origin
	// Objects are the rendered objects, in the order of the manifests file.
	Objects []*unstructured.Unstructured
}

// Set is all that a cluster gets, in install order.
type Set struct {
	// ContentID identifies the inputs that the set was made from.
	ContentID digest.Digest
	// Variables are the given values of those variables that the manifests ask for.
	Variables map[string]string
	Operands  []Operand
}

// Components are the operands as a version in the status of ClusterAPI lists
// them, in install order: without their objects, and each with its image or its
// ConfigMaps.
func (s Set) Components() []v1alpha1.Component {
	components := make([]v1alpha1.Component, len(s.Operands))
	for i, operand := range s.Operands {
		components[i] = v1alpha1.Component{
			Name:       operand.Name,
			Type:       string(operand.Type),
			Version:    operand.Version,
			ContentID:  v1alpha1.Digest(operand.ContentID),
			Source:     operand.Origin.Name,
			Overridden: operand.Origin.Overridden,
			Image:      v1alpha1.ImageReference(operand.Origin.Image),
			ConfigMaps: slices.Clone(operand.Origin.ConfigMaps),
		}
	}
	return components
}
