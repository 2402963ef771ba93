// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/extractor"
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

// Roles returns the roles and bindings of the cluster.
func (i *Installed) Roles(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var roles []*unstructured.Unstructured
	for _, kind := range []string{object.ClusterRole.Kind, object.ClusterRoleBinding.Kind, object.Role.Kind, object.RoleBinding.Kind} {
		found, err := i.cluster.List(ctx, object.ClusterRole.WithVersion("v1").GroupVersion().WithKind(kind), "")
		if err != nil {
			return nil, err
		}
		roles = append(roles, found...)
	}
	return roles, nil
}

// Namespaces returns the namespaces of an installation: the given ones of the providers, or the default one and those in the settings.
func Namespaces(profile extractor.ClusterProfile, given []string, settings []v1alpha1.ComponentSettings) v1alpha1.Namespaces {
	out := profile.Namespaces()
	if len(given) > 0 {
		out.Operand, out.Others = given[0], given[1:]
		return out
	}
	for _, component := range settings {
		if name := component.Namespace; name != "" && !slices.Contains(out.Providers(), name) {
			out.Others = append(out.Others, name)
		}
	}
	return out
}

// MissingInShipped returns the rules for the phases that the shipped roles lack in the namespaces. Those for certificates are shipped with
// deploy/kubernetes only, where the installer issues them.
func MissingInShipped(phases []revision.Phase, unmanaged []string, roles []*unstructured.Unstructured, namespaces v1alpha1.Namespaces, profile extractor.ClusterProfile) ([]rbac.Rule, error) {
	missing, err := MissingPermissions(phases, unmanaged, inAll(roles, namespaces, profile.Namespaces().Operand), namespaces)
	return slices.DeleteFunc(missing, rbac.Rule.ForCertificates), err
}

// inAll returns the shipped roles in each namespace of providers: deploy/kubernetes has them for the default one, and for any other.
func inAll(roles []*unstructured.Unstructured, namespaces v1alpha1.Namespaces, shipped string) (all []*unstructured.Unstructured) {
	for _, role := range roles {
		if role.GetNamespace() != shipped {
			all = append(all, role)
			continue
		}
		for _, namespace := range namespaces.Providers() {
			in := role.DeepCopy()
			in.SetNamespace(namespace)
			all = append(all, in)
		}
	}
	return all
}
