// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

// Version returns the version of Kubernetes.
func (c *Cluster) Version() (*version.Version, error) {
	info, err := c.Discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the version of the API server: %w", withNextStep(err))
	}
	return version.ParseGeneric(info.GitVersion)
}

// Serves reports whether the API server serves a kind.
func (c *Cluster) Serves(kind schema.GroupVersionKind) bool {
	_, err := c.resources.mapping(kind)
	return err == nil
}
