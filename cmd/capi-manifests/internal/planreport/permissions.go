// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// MissingPermissions returns the rules that the installer lacks to install, revert and remove the objects of
// phases, with the roles among the given objects.
func MissingPermissions(phases []revision.Phase, unmanaged []string, roles []*unstructured.Unstructured, namespaces v1alpha1.Namespaces) ([]rbac.Rule, error) {
	held, err := rbac.RulesOfInstaller(roles, namespaces.Operator)
	if err != nil {
		return nil, fmt.Errorf("reading the installer's roles: %w", err)
	}
	return rbac.MinimalRules(objectsOf(phases), rbac.Options{UnmanagedCRDs: unmanaged, ExistingRules: held, Namespaces: namespaces}), nil
}

// RolesIn returns the roles and bindings of a cluster.
func RolesIn(ctx context.Context, cluster *apiserver.Cluster) ([]*unstructured.Unstructured, error) {
	var roles []*unstructured.Unstructured
	for _, kind := range []string{object.ClusterRole.Kind, object.ClusterRoleBinding.Kind, object.Role.Kind, object.RoleBinding.Kind} {
		found, err := cluster.List(ctx, object.ClusterRole.WithVersion("v1").GroupVersion().WithKind(kind), "")
		if err != nil {
			return nil, err
		}
		roles = append(roles, found...)
	}
	return roles, nil
}
