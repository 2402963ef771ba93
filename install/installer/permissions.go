// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/permission"
)

// Before the first object of a version is written, the installer checks that it has the
// permissions to install, revert and remove all of them. Otherwise a version would be
// installed in part, or could not be removed. The API server decides: it returns the
// installer's rules, and confirms each permission that they do not cover.

// clusterScope is the name of a namespace without roles of the installer: its rules there are the cluster-wide ones.
const clusterScope = "openshift-capi-installer-cluster-scope"

// Permissions checks the permissions for versions that are rolled out.
type Permissions struct {
	// Reviews creates access reviews; nil skips the check.
	Reviews client.Writer
	// Mapper maps kinds to resources; not nil with Reviews.
	Mapper meta.RESTMapper

	// Namespaces are the namespaces of the installation.
	Namespaces v1alpha1.Namespaces
}

// check returns a *permissionsError if the installer lacks permissions for a version that is rolled out.
func (p *Permissions) check(ctx context.Context, of plan) error {
	if p.Reviews == nil {
		return nil
	}
	missing, err := p.missing(ctx, of)
	if apierrors.IsForbidden(err) { // the API server does not let the installer ask
		log.FromContext(ctx).Info("Not checking the permissions for the version", "version", of.name, "cause", err.Error())
		err = nil
	}
	if err != nil {
		return fmt.Errorf("checking the permissions for version %s: %w", of.name, err)
	}
	if len(missing) > 0 {
		return &permissionsError{version: of.name, namespace: p.Namespaces.Operator, missing: missing}
	}
	return nil
}

// missing returns the rules that the installer lacks for the objects of a version.
func (p *Permissions) missing(ctx context.Context, of plan) ([]permission.Rule, error) {
	var objects []*unstructured.Unstructured
	namespaces := sets.New(p.Namespaces.Providers()...).Insert("")
	defined := definedKinds(of)
	for _, obj := range revision.Objects(of.phases) {
		if !defined.Has(object.GroupKind(obj)) && p.isUnknown(obj.GroupVersionKind()) {
			continue // the phase reports it: no permission would help
		}
		objects = append(objects, obj)
		namespaces.Insert(obj.GetNamespace())
	}
	var held []permission.Rule
	for _, namespace := range sets.List(namespaces) {
		rules, err := p.ownRules(ctx, namespace)
		if err != nil {
			return nil, err
		}
		held = append(held, rules...)
	}
	var missing []permission.Rule
	for _, rule := range permission.MinimalRules(objects, permission.Options{
		UnmanagedCRDs: of.unmanaged, ExistingRules: held, Resource: p.resourceOf,
		CachedNamespaces: p.Namespaces.Providers(), CertificateAnnotation: v1alpha1.ServingCertAnnotation,
	}) {
		denied, err := p.denied(ctx, rule)
		if err != nil {
			return nil, err
		}
		missing = append(missing, denied...)
	}
	return missing, nil
}

// definedKinds returns the kinds that the CRDs of a version define.
func definedKinds(of plan) sets.Set[schema.GroupKind] {
	kinds := sets.New[schema.GroupKind]()
	for _, obj := range revision.Objects(of.phases) {
		if object.IsCRD(obj) {
			kinds.Insert(object.DefinedKind(obj))
		}
	}
	return kinds
}

// isUnknown reports whether the API server does not serve a kind.
func (p *Permissions) isUnknown(kind schema.GroupVersionKind) bool {
	_, err := p.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return meta.IsNoMatchError(err)
}

// resourceOf returns the resource of a kind that the API server serves.
func (p *Permissions) resourceOf(kind schema.GroupVersionKind) (string, bool) {
	mapping, err := p.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return "", false
	}
	return mapping.Resource.Resource, true
}

// ownRules returns the rules of the installer in a namespace; cluster-wide if it is empty.
func (p Permissions) ownRules(ctx context.Context, namespace string) ([]permission.Rule, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if namespace == "" {
		review.Spec.Namespace = clusterScope
	}
	if err := p.Reviews.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("reading the installer's permissions: %w", err)
	}
	var rules []permission.Rule
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, permission.Rule{Namespace: namespace, PolicyRule: rbacv1.PolicyRule{
			Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
		}})
	}
	for _, rule := range review.Status.NonResourceRules {
		rules = append(rules, permission.Rule{Namespace: namespace, PolicyRule: rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs}})
	}
	return rules, nil
}

// denied returns the rule with the verbs that the API server denies for any of its objects; none if it allows all. An
// authorizer other than RBAC may allow more than the rules.
func (p *Permissions) denied(ctx context.Context, rule permission.Rule) ([]permission.Rule, error) {
	var verbs []string
	for _, verb := range rule.Verbs {
		single := rule
		single.Verbs = []string{verb}
		for _, attributes := range single.Requests() {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: attributes}
			if err := p.Reviews.Create(ctx, review); err != nil {
				return nil, fmt.Errorf("reading the installer's permissions: %w", err)
			}
			if !review.Status.Allowed {
				verbs = append(verbs, verb)
				break
			}
		}
	}
	if verbs == nil {
		return nil, nil
	}
	rule.Verbs = verbs
	return []permission.Rule{rule}, nil
}

// permissionsError is the error for a version that the installer may not install or remove.
type permissionsError struct {
	version, namespace string
	missing            []permission.Rule
}

func (e *permissionsError) Error() string {
	texts := make([]string, len(e.missing))
	for i, rule := range e.missing {
		texts[i] = rule.String()
	}
	slices.Sort(texts)
	return fmt.Sprintf("installing version %s is forbidden: service account %s in namespace %s %s; nothing of the version was written; \"capi-manifests rbac\" writes the missing rules",
		e.version, v1alpha1.ServiceAccountName, e.namespace, strings.Join(texts, "; "))
}
