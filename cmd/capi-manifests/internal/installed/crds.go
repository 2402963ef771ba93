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

// UnknownCRDs returns an error for each name that no CRD of the cluster or of its stored versions has; it proposes the nearest name.
func (c *Cluster) UnknownCRDs(ctx context.Context, wanted []string) (unknown []error, err error) {
	versions, err := c.Versions(ctx)
	if err != nil {
		return nil, err
	}
	definitions, err := c.metadata.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.failed(crds, "", err)
	}
	var names []string
	for _, version := range versions {
		for _, component := range version.Set.Operands {
			for _, stored := range component.Objects {
				if object.IsCRD(stored) {
					names = append(names, stored.GetName())
				}
			}
		}
	}
	for _, definition := range definitions.Items {
		names = append(names, definition.Name)
	}
	for _, name := range wanted {
		nearest := text.Nearest(name, names)
		switch {
		case slices.Contains(names, name):
		case nearest != "":
			unknown = append(unknown, fmt.Errorf("CRD %s not found; did you mean %s?", name, nearest))
		default:
			unknown = append(unknown, fmt.Errorf("CRD %s not found in the cluster or in a stored version", name))
		}
	}
	return unknown, nil
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
