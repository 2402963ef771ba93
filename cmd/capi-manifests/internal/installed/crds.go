// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// CRDs are names of CRDs, sorted.
type CRDs []string

// CRDs returns the names of the CRDs in the cluster and in its stored versions.
func (c *Cluster) CRDs(ctx context.Context) (CRDs, error) {
	versions, err := c.Versions(ctx)
	if err != nil {
		return nil, err
	}
	var names CRDs
	for _, version := range versions {
		for _, component := range version.Set.Operands {
			for _, stored := range component.Objects {
				if stored.GroupVersionKind().GroupKind() == object.CustomResourceDefinition {
					names = append(names, stored.GetName())
				}
			}
		}
	}
	definitions, err := c.metadata.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.failed(crds, "", err)
	}
	for _, definition := range definitions.Items {
		names = append(names, definition.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Unknown returns an error if there is no CRD with a name; it names the nearest one.
func (c CRDs) Unknown(name string) error {
	if slices.Contains(c, name) {
		return nil
	}
	if nearest := text.Nearest(name, c); nearest != "" {
		return fmt.Errorf("CRD %s not found; did you mean %s?", name, nearest)
	}
	return fmt.Errorf("CRD %s not found in the cluster or in a stored version", name)
}

// ClusterAPI reads the ClusterAPI object. Errors are of type *AccessError.
func (c *Cluster) ClusterAPI(ctx context.Context) (*v1alpha1.ClusterAPI, error) {
	list, err := c.objects.Resource(clusterAPIs).List(ctx, onlyCluster)
	if err != nil {
		return nil, c.failed(clusterAPIs, "", err)
	}
	found, err := only[v1alpha1.ClusterAPI](pointers(list.Items)...)
	if err == nil && found == nil {
		err = &AccessError{Subject: "API server " + c.config.Host, Err: fmt.Errorf("ClusterAPI %q does not exist", v1alpha1.ClusterAPIName), Permanent: true,
			NextStep: "the installer creates it at its first start; capi-manifests status shows whether it runs"}
	}
	return found, err
}
