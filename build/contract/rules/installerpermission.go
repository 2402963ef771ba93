// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/permission"
	"github.com/capi-installer/capi-installer/manifests"
)

// shippedRules are the rules that a release for OpenShift grants to the installer.
var shippedRules = sync.OnceValues(func() ([]rbac.Rule, error) {
	roles, err := manifests.Objects()
	if err != nil {
		return nil, err
	}
	return rbac.RulesOfInstaller(roles, v1alpha1.OpenShiftNamespaces.Operator)
})

// installer is the installer with the shipped roles, in a cluster that installs a bundle.
type installer struct {
	bundle    *contract.Bundle
	namespace string // of the providers
	held      []rbac.Rule
}

// newInstaller returns the installer for a bundle. Other clusters than OpenShift have the same roles in other namespaces.
func newInstaller(b *contract.Bundle) (installer, error) {
	shipped, err := shippedRules()
	with := installer{bundle: b, namespace: b.Metadata.ClusterProfile.Namespaces().Operand, held: slices.Clone(shipped)}
	for i, rule := range with.held {
		if rule.Namespace == v1alpha1.OpenShiftNamespaces.Operand {
			with.held[i].Namespace = with.namespace
		}
	}
	return with, err
}

// missing returns the rules that the installer lacks to install, revert and remove objects, as "capi-manifests plan" and
// the installer compute them.
func (i installer) missing(objects ...*unstructured.Unstructured) []rbac.Rule {
	rules := permission.MinimalRules(objects, permission.Options{
		CachedNamespaces: []string{i.namespace}, CertificateAnnotation: v1alpha1.ServingCertAnnotation, ExistingRules: i.held, Resource: i.definedResource,
	})
	return slices.DeleteFunc(rules, rbac.Rule.ForCertificates) // deploy/kubernetes grants them
}

// definedResource returns the resource of a kind that a CRD of the bundle defines.
func (i installer) definedResource(kind schema.GroupVersionKind) (string, bool) {
	d := i.bundle.Definitions.Kind(kind.Group, kind.Kind)
	if d == nil {
		return "", false
	}
	return d.At("spec", "names", "plural").Text(), true
}

// missingFor returns the rules that the installer lacks for an object. The rules for the binding of an admission policy
// depend on the policy, and the policy has its own.
func (i installer) missingFor(o *contract.Object) []rbac.Rule {
	objects := unstructuredOf(o)
	if policy, isBinding := strings.CutSuffix(o.Kind.Kind, "Binding"); isBinding && o.Kind.Group == object.AdmissionGroup {
		policies := unstructuredOf(i.bundle.OfKind(schema.GroupKind{Group: o.Kind.Group, Kind: policy})...)
		i.held = slices.Concat(i.held, i.missing(policies...))
		objects = append(objects, policies...)
	}
	return i.missing(objects...)
}

// unstructuredOf returns objects that can be read.
func unstructuredOf(objects ...*contract.Object) (all []*unstructured.Unstructured) {
	for _, o := range objects {
		converted := &unstructured.Unstructured{}
		if data, err := o.JSON(); err == nil && converted.UnmarshalJSON(data) == nil {
			all = append(all, converted)
		}
	}
	return all
}

// checkPermissions reports, at each object, the rules that the shipped roles lack for it. Other rules of this package
// report objects that no role can help.
func checkPermissions(b *contract.Bundle) contract.Findings {
	with, err := newInstaller(b)
	if err != nil {
		return contract.Findings{{File: contract.ManifestsFile, Line: 1, Message: "the shipped roles cannot be read: " + err.Error()}}
	}
	return each(b.Objects, func(o *contract.Object) contract.Findings {
		otherNamespace := contract.Installable[o.Kind] && o.Namespace != with.namespace
		hasOwnRule := o.Kind == object.Namespace || o.Kind == object.Secret || o.Kind.Group == object.CertManagerGroup
		if otherNamespace || hasOwnRule || o.Kind.Kind == "" || o.At("apiVersion").Text() == "" {
			return nil
		}
		var texts []string
		for _, rule := range with.missingFor(o) {
			texts = append(texts, rule.String())
		}
		if len(texts) == 0 {
			return nil
		}
		return o.At("kind").Finding("the installer %s", strings.Join(texts, "; "))
	})
}
