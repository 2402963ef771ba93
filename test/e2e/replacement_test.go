// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// installAsPredecessor applies the objects of providers in the form of cluster-capi-operator: with its labels and as
// the owner of their fields.
func (c *cycle) installAsPredecessor(providers ...fixture.Synthetic) {
	c.Helper()
	images := c.imagesOf(providers...)
	var bundles []extractor.Bundle
	for _, provider := range providers {
		bundle := provider.Bundle()
		bundle.Origin = extractor.Origin{Name: provider.Name, Image: images[provider.Name]}
		bundles = append(bundles, bundle)
	}
	set, err := operand.Render(bundles, nil)
	c.must(err)
	phases, err := revision.Phases("old", 1, set, nil)
	c.must(err)
	for _, phase := range phases {
		for _, object := range phase.Objects {
			labels := map[string]string{predecessor.ManagedByLabel: predecessor.ManagedBy, predecessor.ComponentLabel: phase.Name}
			maps.Copy(labels, object.GetLabels())
			object.SetLabels(labels)
			object.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: "7"})
			c.must(c.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(predecessor.FieldOwner)))
		}
	}
}
