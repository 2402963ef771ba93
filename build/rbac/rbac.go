// SPDX-License-Identifier: Apache-2.0

// Package rbac writes the roles with the minimal permissions that the installer needs for
// a set of objects. Package permission computes the permissions. It is pure: objects in,
// roles out.
package rbac

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/permission"
	"github.com/capi-installer/capi-installer/internal/rbacrule"
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

// AggregateLabel with the value "true" adds the rules of a ClusterRole to the
// installer's rules: ClusterRole openshift-capi-installer-aggregated in the
// installer's manifests aggregates them.
const AggregateLabel = v1alpha1.Prefix + "/aggregate-to-installer"

// Roles are the objects that grant rules to the installer.
type Roles struct {
	// ClusterRole has the cluster-wide rules; nil if there are none. It needs no
	// binding, because it is aggregated by its label.
	ClusterRole *rbacv1.ClusterRole
	// Roles have the rules of one namespace each, sorted by namespace. Kubernetes
	// does not aggregate Roles, so each has a binding, at the same index of
	// Bindings.
	Roles    []rbacv1.Role
	Bindings []rbacv1.RoleBinding
}

// RolesOf returns the roles for rules. The rules must be in the order of MinimalRules. The ClusterRole has
// AggregateLabel. The subject of the bindings is the installer in a namespace.
func RolesOf(rules []Rule, name, installerNamespace string) Roles {
	byNamespace := map[string][]rbacv1.PolicyRule{}
	for _, rule := range rules {
		byNamespace[rule.Namespace] = append(byNamespace[rule.Namespace], rule.PolicyRule)
	}
	var roles Roles
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
		if namespace == "" {
			meta.Labels = map[string]string{AggregateLabel: "true"}
			roles.ClusterRole = &rbacv1.ClusterRole{TypeMeta: typeOf(object.ClusterRole.Kind), ObjectMeta: meta, Rules: byNamespace[namespace]}
			continue
		}
		roles.Roles = append(roles.Roles, rbacv1.Role{TypeMeta: typeOf(object.Role.Kind), ObjectMeta: meta, Rules: byNamespace[namespace]})
		roles.Bindings = append(roles.Bindings, rbacv1.RoleBinding{
			TypeMeta: typeOf(object.RoleBinding.Kind), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: object.Role.Kind, Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installerNamespace, Name: v1alpha1.ServiceAccountName}},
		})
	}
	return roles
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// Objects returns the roles and bindings in apply order.
func (r Roles) Objects() []object.Object {
	var objects []object.Object
	if r.ClusterRole != nil {
		objects = append(objects, r.ClusterRole)
	}
	for i := range r.Roles {
		objects = append(objects, &r.Roles[i], &r.Bindings[i])
	}
	return objects
}

// RulesOfInstaller returns the rules that objects, such as the installer's own
// manifests, grant to the installer's service account in a namespace through the roles among them.
// It does not include rules of aggregated ClusterRoles.
func RulesOfInstaller(objects []*unstructured.Unstructured, installerNamespace string) ([]Rule, error) {
	isInstaller := func(subject rbacv1.Subject) bool {
		return isServiceAccount(subject, installerNamespace, v1alpha1.ServiceAccountName)
	}
	granted := map[object.Identity][]rbacv1.PolicyRule{}
	for _, o := range objects {
		if kind := object.GroupKind(o); kind == object.ClusterRole || kind == object.Role {
			granted[object.IdentityOf(o)] = rbacrule.RulesOf(o.Object)
		}
	}
	var held []Rule
	for _, o := range objects {
		if kind := object.GroupKind(o); kind != object.ClusterRoleBinding && kind != object.RoleBinding {
			continue
		}
		var binding rbacv1.RoleBinding // which has the fields of a ClusterRoleBinding too
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if !slices.ContainsFunc(binding.Subjects, isInstaller) {
			continue
		}
		from := object.Identity{GroupKind: schema.GroupKind{Group: object.RBACGroup, Kind: binding.RoleRef.Kind}, Name: binding.RoleRef.Name}
		if from.GroupKind == object.Role {
			from.Namespace = binding.Namespace
		}
		for _, rule := range granted[from] {
			held = append(held, Rule{Namespace: binding.Namespace, PolicyRule: rule})
		}
	}
	return held, nil
}

// isServiceAccount reports whether a subject is a service account, or a user or group that it authenticates as.
func isServiceAccount(subject rbacv1.Subject, namespace, name string) bool {
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		return subject.Namespace == namespace && subject.Name == name
	case rbacv1.UserKind:
		return subject.Name == "system:serviceaccount:"+namespace+":"+name
	case rbacv1.GroupKind:
		return slices.Contains([]string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + namespace}, subject.Name)
	}
	return false
}
