// SPDX-License-Identifier: Apache-2.0

// Package rbac writes the roles with the minimal permissions that the installer needs for
// a set of objects. Package permission computes the permissions. It is pure: objects in,
// roles out.
package rbac

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/permission"
)

// Rule is a rule of the role with its reason.
type Rule = permission.Rule

// Options are inputs besides the objects. The zero value is right for a cluster
// whose installer manages every CRD and has no permissions yet.
type Options struct {
	// UnmanagedCRDs are the names of CRDs that the installer does not manage.
	UnmanagedCRDs []string
	// ExistingRules are rules that the installer has in any case; they are omitted.
	// Their field Why is ignored.
	ExistingRules []Rule
	// Namespaces are the installer's; the zero value means OpenShift's.
	Namespaces v1alpha1.Namespaces
}

// MinimalRules returns the rules that the installer needs for objects, as permission.MinimalRules does.
func MinimalRules(objects []*unstructured.Unstructured, options Options) []Rule {
	namespaces := options.Namespaces
	if namespaces.Operand == "" {
		namespaces = v1alpha1.OpenShiftNamespaces
	}
	return permission.MinimalRules(objects, permission.Options{
		UnmanagedCRDs: options.UnmanagedCRDs, ExistingRules: options.ExistingRules,
		CachedNamespaces: namespaces.Providers(), CertificateAnnotation: v1alpha1.ServingCertAnnotation,
	})
}
