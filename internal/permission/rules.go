// SPDX-License-Identifier: Apache-2.0

// Package permission computes the minimal permissions that the installer needs to install
// a set of objects, to revert drift, and to tear them down. It is pure: objects in,
// roles out.
//
// Each permission follows from an operation of the installer:
//
//   - It watches the kind of each object: cluster-wide, or in the namespaces of the providers. A watch cannot be limited to names.
//   - It creates each object. The authorizer does not know the name in a create request,
//     so "create" cannot be limited to names either.
//   - It reads an object from the API server if the cache is stale, patches it, and
//     deletes it. These permissions are limited to the name of the object.
//   - Before it deletes a CRD, it lists the instances. If the CRD has a conversion webhook, it reads an instance in each version.
//   - Kubernetes rejects a role or binding with permissions that the writer lacks. See grant.go.
//
// Owners are in an annotation, not in owner references, so no permission for
// finalizers or status subresources is needed.
package permission

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
)

// reason is the purpose of a permission.
type reason string

const (
	forKinds        reason = "each kind is watched, and its objects are created; neither can be narrowed to names"
	forObjects      reason = "external changes to each object are reverted, and it is deleted at teardown"
	forInstances    reason = "a CRD is deleted only if it has no instances, and a conversion webhook is checked with an instance"
	forUnmanaged    reason = "a CompatibilityRequirement is kept for each unmanaged CRD"
	forEscalate     reason = "a ClusterRole of the set has an aggregation rule; Kubernetes requires all permissions, or this one, which cannot be narrowed to names for a create request"
	forBind         reason = "each role is bound; the dry run of the binding precedes the creation of the role"
	forParams       reason = "an admission policy is bound to parameters, which the writer of the binding must be able to read"
	forCertificates reason = "the installer issues the certificates that Services of the set request"
	forGrant        reason = "roles of the set grant it; Kubernetes rejects roles with permissions that the writer lacks"
)

// reasons lists the reasons in the order of the rules.
var reasons = []reason{forKinds, forObjects, forInstances, forUnmanaged, forEscalate, forBind, forParams, forCertificates, forGrant}

// ForCertificates reports whether the rule lets the installer issue certificates.
func (r Rule) ForCertificates() bool { return r.Why == string(forCertificates) }

// Options are inputs besides the objects. Without UnmanagedCRDs and ExistingRules, the installer manages every CRD and has no
// permissions yet.
type Options struct {
	// CachedNamespaces are the namespaces whose objects the installer watches: it watches a kind in all of them.
	CachedNamespaces []string
	// CertificateAnnotation, on a Service, is the name of the Secret with the certificate that the installer issues.
	CertificateAnnotation string
	// UnmanagedCRDs are the names of CRDs that the installer does not manage.
	UnmanagedCRDs []string
	// ExistingRules are rules that the installer has in any case; they are omitted.
	// Their field Why is ignored.
	ExistingRules []Rule
	// Resource returns the resource of a kind that no CRD among the objects defines, and whether it is known; nil
	// derives it from the name of the kind.
	Resource func(schema.GroupVersionKind) (string, bool)
}

// MinimalRules returns the rules that the installer needs for objects. They must be
// rendered as in the cluster. Objects may contain duplicates: the objects of two
// releases give the rules for an upgrade. Rules are sorted, cluster-wide ones
// first, and none covers another.
func MinimalRules(objects []*unstructured.Unstructured, options Options) []Rule {
	var held []permission
	for _, rule := range options.ExistingRules {
		held = append(held, permissionsOf(rule.Namespace, rule.PolicyRule)...)
	}
	needed, known, grants := requiredPermissions{}, resourcesOf(objects, options.Resource), grantsItself(held)
	for _, o := range objects {
		if object.IsCRD(o) && slices.Contains(options.UnmanagedCRDs, o.GetName()) {
			needed.addUnmanaged(o)
			continue
		}
		needed.addObject(o, known.of(o), options)
		if object.IsCRD(o) && !grants {
			needed.addVerbs(forInstances, permissionOn("", defines(o)), instanceVerbs(o)...)
		}
	}
	needed.addGrants(objects, known, held)
	return needed.without(held).rules()
}

// instanceVerbs returns the verbs on the instances of a CRD: a list shows whether there are any. An API server can answer a list from its cache, so
// the proof of a conversion webhook reads an instance from the store.
func instanceVerbs(crd *unstructured.Unstructured) []string {
	if object.TextAt(crd.Object, "spec", "conversion", "strategy") == "Webhook" {
		return []string{"list", "get"}
	}
	return []string{"list"}
}

// addObject adds the permissions to install, reconcile and delete an object.
func (n requiredPermissions) addObject(o *unstructured.Unstructured, resource schema.GroupResource, options Options) {
	in := permissionOn(o.GetNamespace(), resource)
	watched := []string{""}
	if in.namespace != "" {
		watched = options.CachedNamespaces // the cache holds no other namespace
	}
	for _, namespace := range watched {
		n.addVerbs(forKinds, permissionOn(namespace, resource), "list", "watch")
	}
	n.addVerbs(forKinds, in, "create")
	in.Name = o.GetName()
	n.addVerbs(forObjects, in, "get", "patch", "delete")
	if secret := o.GetAnnotations()[options.CertificateAnnotation]; secret != "" && o.GetKind() == "Service" {
		n.addCertificate(o.GetNamespace(), secret)
	}
}

// addCertificate adds the permissions to issue a certificate in a Secret. A name cannot limit create.
func (n requiredPermissions) addCertificate(namespace, secret string) {
	in := permissionOn(namespace, schema.GroupResource{Resource: "secrets"})
	n.addVerbs(forCertificates, in, "create")
	in.Name = secret
	n.addVerbs(forCertificates, in, "get", "update")
}

// addUnmanaged adds the permissions to check an unmanaged CRD. Each revision has
// its own CompatibilityRequirements. The installer reads the CRD, and removes its
// annotations if it managed the CRD before.
func (n requiredPermissions) addUnmanaged(crd *unstructured.Unstructured) {
	n.addVerbs(forUnmanaged, permissionOn("", requirements), "list", "watch", "create", "get", "patch", "delete")
	definitions := permissionOn("", object.CRDResource.GroupResource())
	n.addVerbs(forUnmanaged, definitions, "list", "watch")
	definitions.Name = crd.GetName()
	n.addVerbs(forUnmanaged, definitions, "get", "patch")
}

func (n requiredPermissions) addVerbs(why reason, in permission, verbs ...string) {
	for _, verb := range verbs {
		in.Verb = verb
		n.add(why, in)
	}
}

var (
	clusterRoles        = schema.GroupResource{Group: object.RBACGroup, Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupResource{Group: object.RBACGroup, Resource: "clusterrolebindings"}
	rolesResource       = schema.GroupResource{Group: object.RBACGroup, Resource: "roles"}
	requirements        = schema.GroupResource{Group: object.CompatibilityRequirement.Group, Resource: "compatibilityrequirements"}
)

// irregular lists the kinds of providers' objects whose resource is not the regular
// English plural of the kind.
var irregular = map[schema.GroupKind]string{
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: "securitycontextconstraints",
	{Group: "gateway.networking.k8s.io", Kind: "Gateway"}:                "gateways",
}

// resources maps kinds to resources.
type resources struct {
	// defined are the kinds of the CRDs among the objects.
	defined map[schema.GroupKind]string
	// served returns the resource of another kind, and whether it is known.
	served func(schema.GroupVersionKind) (string, bool)
}

// resourcesOf returns the kinds that the CRDs among objects define. served may be nil.
func resourcesOf(objects []*unstructured.Unstructured, served func(schema.GroupVersionKind) (string, bool)) resources {
	if served == nil {
		served = func(schema.GroupVersionKind) (string, bool) { return "", false }
	}
	known := resources{map[schema.GroupKind]string{}, served}
	for _, o := range objects {
		if object.IsCRD(o) {
			known.defined[object.DefinedKind(o)] = defines(o).Resource
		}
	}
	return known
}

// defines returns the resource that a CRD defines.
func defines(crd *unstructured.Unstructured) schema.GroupResource {
	return schema.GroupResource{Group: object.TextAt(crd.Object, "spec", "group"), Resource: object.TextAt(crd.Object, "spec", "names", "plural")}
}

// of returns the resource of an object. Without a CRD, it follows the convention of
// Kubernetes' own resources.
func (r resources) of(o *unstructured.Unstructured) schema.GroupResource {
	kind := object.GroupKind(o)
	for _, lookup := range []func() (string, bool){
		func() (string, bool) { resource, found := r.defined[kind]; return resource, found },
		func() (string, bool) { return r.served(o.GroupVersionKind()) },
		func() (string, bool) { resource, found := irregular[kind]; return resource, found },
	} {
		if resource, found := lookup(); found {
			return schema.GroupResource{Group: kind.Group, Resource: resource}
		}
	}
	guessed, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return guessed.GroupResource()
}
