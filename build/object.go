// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nameOf names an object in messages: "Deployment capi-system/manager".
func nameOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

func groupKind(o *unstructured.Unstructured) schema.GroupKind {
	return o.GroupVersionKind().GroupKind()
}

// The kinds that the transforms know.
var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	secretKind     = schema.GroupKind{Kind: "Secret"}
	serviceKind    = schema.GroupKind{Kind: "Service"}
	crdKind        = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	mutatingKind   = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}
	validatingKind = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}
	apiServiceKind = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
	policyKind     = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}
)

// clusterScopedGroups are the API groups all of whose kinds are cluster-scoped.
var clusterScopedGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "config.openshift.io",
	"flowcontrol.apiserver.k8s.io", "node.k8s.io", "scheduling.k8s.io",
}

// clusterScopedKinds are the cluster-scoped kinds of the other groups that a provider may ship.
var clusterScopedKinds = []schema.GroupKind{
	namespaceKind,
	{Kind: "Node"},
	{Kind: "PersistentVolume"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"},
	{Group: "networking.k8s.io", Kind: "IngressClass"},
	{Group: "storage.k8s.io", Kind: "StorageClass"},
	{Group: "storage.k8s.io", Kind: "CSIDriver"},
	{Group: "policy", Kind: "PodSecurityPolicy"},
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"},
	{Group: "apiextensions.openshift.io", Kind: "CompatibilityRequirement"},
	{Group: "cert-manager.io", Kind: "ClusterIssuer"},
	{Group: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig"},
}

// builtInNamespacedGroups are the API groups of Kubernetes whose other kinds are namespaced.
var builtInNamespacedGroups = []string{
	"", "apps", "autoscaling", "batch", "coordination.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
}

// namespaced says whether objects of o's kind live in a namespace. A kind that
// neither Kubernetes nor a CRD among objects defines is judged by whether o names
// a namespace.
func namespaced(o *unstructured.Unstructured, crdScopes map[schema.GroupKind]bool) bool {
	kind := groupKind(o)
	if scope, known := crdScopes[kind]; known {
		return scope
	}
	switch {
	case slices.Contains(clusterScopedGroups, kind.Group), slices.Contains(clusterScopedKinds, kind):
		return false
	case slices.Contains(builtInNamespacedGroups, kind.Group):
		return true
	}
	return o.GetNamespace() != ""
}

// crdScopes returns, for each kind that a CRD among objects defines, whether it is namespaced.
func crdScopes(objects []*unstructured.Unstructured) map[schema.GroupKind]bool {
	scopes := map[schema.GroupKind]bool{}
	for _, o := range objects {
		if groupKind(o) != crdKind {
			continue
		}
		defined := schema.GroupKind{Group: textAt(o.Object, "spec", "group"), Kind: textAt(o.Object, "spec", "names", "kind")}
		scopes[defined] = textAt(o.Object, "spec", "scope") == "Namespaced"
	}
	return scopes
}

// rank is how early others need objects of a kind: lower comes first.
func rank(kind schema.GroupKind) int {
	switch {
	case kind == namespaceKind:
		return 0
	case kind == crdKind:
		return 1
	case kind.Kind == "ServiceAccount":
		return 2
	case kind.Group == "rbac.authorization.k8s.io":
		return 3
	case kind == secretKind, kind.Group == "" && kind.Kind == "ConfigMap":
		return 4
	case kind == serviceKind:
		return 5
	case kind == policyKind:
		return 6
	case kind.Kind == "ValidatingAdmissionPolicyBinding":
		return 7
	case kind.Group == "apps", kind.Group == "batch":
		return 9
	case kind == mutatingKind, kind == validatingKind:
		return 10
	}
	return 8
}

// sortObjects sorts objects into the order that the package comment tells.
func sortObjects(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		ka, kb := groupKind(a), groupKind(b)
		return cmp.Or(
			cmp.Compare(rank(ka), rank(kb)),
			strings.Compare(ka.Group, kb.Group),
			strings.Compare(ka.Kind, kb.Kind),
			strings.Compare(a.GetNamespace(), b.GetNamespace()),
			strings.Compare(a.GetName(), b.GetName()),
		)
	})
}

// checkUnique returns an error for every object that occurs twice, whatever its API version.
func checkUnique(objects []*unstructured.Unstructured) []error {
	type identity struct {
		kind            schema.GroupKind
		namespace, name string
	}
	var errs []error
	seen := map[identity]bool{}
	for _, o := range objects {
		id := identity{groupKind(o), o.GetNamespace(), o.GetName()}
		if seen[id] {
			errs = append(errs, fmt.Errorf("%s occurs twice", nameOf(o)))
		}
		seen[id] = true
	}
	return errs
}

// Reading and writing inside an object. Fields that are missing or of another
// type read as zero: the API server, not this package, judges whether an object is valid.

func mapAt(object map[string]any, path ...string) map[string]any {
	for _, field := range path {
		object, _ = object[field].(map[string]any)
	}
	return object
}

func textAt(object map[string]any, path ...string) string {
	text, _ := mapAt(object, path[:len(path)-1]...)[path[len(path)-1]].(string)
	return text
}

// mapsAt returns the elements of the list at path that are maps.
func mapsAt(object map[string]any, path ...string) []map[string]any {
	list, _ := mapAt(object, path[:len(path)-1]...)[path[len(path)-1]].([]any)
	var maps []map[string]any
	for _, element := range list {
		if m, ok := element.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}

// ensureMap returns the map at path, making what is missing on the way.
func ensureMap(object map[string]any, path ...string) map[string]any {
	for _, field := range path {
		next, ok := object[field].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[field] = next
		}
		object = next
	}
	return object
}

// podTemplate returns the pod template of a workload, its parent "spec" for a bare
// Pod, or nil for every other kind: {metadata, spec} in each case.
func podTemplate(o *unstructured.Unstructured) map[string]any {
	kind := groupKind(o)
	switch {
	case kind == schema.GroupKind{Kind: "Pod"}:
		return o.Object
	case kind == schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return mapAt(o.Object, "spec", "jobTemplate", "spec", "template")
	case kind.Group == "apps", kind.Group == "batch", kind == schema.GroupKind{Kind: "ReplicationController"}:
		return mapAt(o.Object, "spec", "template")
	}
	return nil
}

// containersOf returns the containers of an object that runs pods, init containers first.
func containersOf(o *unstructured.Unstructured) []map[string]any {
	template := podTemplate(o)
	return append(mapsAt(template, "spec", "initContainers"), mapsAt(template, "spec", "containers")...)
}
