// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Identity identifies an object in a cluster. It has no API version, because the
// API server serves the same object in several versions.
type Identity struct {
	schema.GroupKind
	Namespace, Name string
}

// IdentityOf returns the identity of an object.
func IdentityOf(o Object) Identity {
	kind := GroupKind(o)
	if unstructured, ok := o.(interface{ GetKind() string }); ok {
		kind.Kind = unstructured.GetKind() // also if apiVersion is invalid
	}
	return Identity{GroupKind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String returns the kind, namespace and name as messages show them:
// "Deployment openshift-cluster-api/capa-controller-manager".
func (i Identity) String() string {
	name := i.Name
	if name != "" && i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	switch {
	case i.Kind == "":
		return name
	case name == "":
		return i.Kind
	default:
		return i.Kind + " " + name
	}
}

// Describe returns the kind, namespace and name of an object for messages.
func Describe(o Object) string { return IdentityOf(o).String() }

// AsRead returns the preconditions that reject the deletion of an object that was replaced or changed since it was read.
func AsRead(o metav1.Object) metav1.Preconditions {
	return metav1.Preconditions{UID: new(o.GetUID()), ResourceVersion: new(o.GetResourceVersion())}
}

// Duplicates returns an identity for each object whose identity an earlier object
// has, in order.
func Duplicates[O Object](objects []O) []Identity {
	var duplicates []Identity
	seen := map[Identity]bool{}
	for _, o := range objects {
		identity := IdentityOf(o)
		if seen[identity] {
			duplicates = append(duplicates, identity)
		}
		seen[identity] = true
	}
	return duplicates
}

// CheckUnique returns an error for each object whose identity an earlier object
// has.
func CheckUnique[O Object](objects []O) []error {
	var errs []error
	for _, duplicate := range Duplicates(objects) {
		errs = append(errs, fmt.Errorf("%s is defined more than once", duplicate))
	}
	return errs
}

// applyOrder lists kinds in apply order: an object comes after its dependencies.
// Kinds that are not listed have the rank of the nil entry.
//
// An admission policy precedes its binding: until the policy exists, the API
// server rejects the binding unless the user may read every resource. Webhooks
// come last, because a webhook that is registered before its Deployment is
// available rejects all objects that are applied after it.
var applyOrder = [][]schema.GroupKind{
	{Namespace},
	{CustomResourceDefinition},
	{ServiceAccount},
	{ClusterRole, Role},
	{ClusterRoleBinding, RoleBinding},
	{ConfigMap, Secret},
	{Service},
	{ValidatingAdmissionPolicy, MutatingAdmissionPolicy},
	{ValidatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding},
	nil,
	{
		Pod, {Kind: "PodTemplate"}, {Kind: "ReplicationController"},
		Deployment, DaemonSet, StatefulSet, ReplicaSet, Job, CronJob,
	},
	{ValidatingWebhookConfiguration, MutatingWebhookConfiguration, APIService},
}

var ranks, rankOfOthers = indexRanks()

func indexRanks() (byKind map[schema.GroupKind]int, others int) {
	byKind = map[schema.GroupKind]int{}
	for rank, kinds := range applyOrder {
		if kinds == nil {
			others = rank
		}
		for _, kind := range kinds {
			byKind[kind] = rank
		}
	}
	return byKind, others
}

// Rank returns the position of a kind in the apply order. Objects of a lower rank
// are applied first. Objects of the same rank do not depend on each other.
func Rank(kind schema.GroupKind) int {
	if rank, found := ranks[kind]; found {
		return rank
	}
	return rankOfOthers
}

// CompareRank compares two objects only by rank, so that a stable sort keeps the
// order of the manifests within a rank.
func CompareRank[O Object](a, b O) int {
	return cmp.Compare(Rank(GroupKind(a)), Rank(GroupKind(b)))
}

// Compare compares two objects by rank, then by group, kind, namespace and name. It
// is a total order of objects with different identities.
func Compare[O Object](a, b O) int {
	first, second := IdentityOf(a), IdentityOf(b)
	return cmp.Or(
		cmp.Compare(Rank(first.GroupKind), Rank(second.GroupKind)),
		strings.Compare(first.Group, second.Group),
		strings.Compare(first.Kind, second.Kind),
		strings.Compare(first.Namespace, second.Namespace),
		strings.Compare(first.Name, second.Name),
	)
}

// Scope distinguishes namespaced kinds from cluster-scoped ones.
type Scope int

// The scopes of kinds. ScopeUnknown is the scope of a kind that is not in
// Kubernetes, OpenShift or a known CRD.
const (
	ScopeUnknown Scope = iota
	ScopeNamespaced
	ScopeCluster
)

// Scopes maps the kinds of a set of CRDs to their scopes.
type Scopes map[schema.GroupKind]Scope

// knownScopes has the scopes of kinds that providers use without having a CRD for
// them.
var knownScopes = scopesOf(map[string]map[Scope][]string{
	"": {
		ScopeNamespaced: {
			"ConfigMap", "Endpoints", "Event", "LimitRange", "PersistentVolumeClaim", "Pod", "PodTemplate",
			"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount",
		},
		ScopeCluster: {"Namespace", "Node", "PersistentVolume"},
	},
	AdmissionGroup: {ScopeCluster: {
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	}},
	APIExtensionsGroup:             {ScopeCluster: {"CustomResourceDefinition"}},
	"apiextensions.openshift.io":   {ScopeCluster: {"CompatibilityRequirement"}},
	"apiregistration.k8s.io":       {ScopeCluster: {"APIService"}},
	"apps":                         {ScopeNamespaced: {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}},
	"autoscaling":                  {ScopeNamespaced: {"HorizontalPodAutoscaler"}},
	"batch":                        {ScopeNamespaced: {"CronJob", "Job"}},
	CertManagerGroup:               {ScopeNamespaced: {"Certificate", "CertificateRequest", "Issuer"}, ScopeCluster: {"ClusterIssuer"}},
	"certificates.k8s.io":          {ScopeCluster: {"CertificateSigningRequest"}},
	"coordination.k8s.io":          {ScopeNamespaced: {"Lease"}},
	"discovery.k8s.io":             {ScopeNamespaced: {"EndpointSlice"}},
	"flowcontrol.apiserver.k8s.io": {ScopeCluster: {"FlowSchema", "PriorityLevelConfiguration"}},
	"monitoring.coreos.com":        {ScopeNamespaced: {"PodMonitor", "PrometheusRule", "ServiceMonitor"}},
	"networking.k8s.io":            {ScopeNamespaced: {"Ingress", "NetworkPolicy"}, ScopeCluster: {"IngressClass"}},
	"node.k8s.io":                  {ScopeCluster: {"RuntimeClass"}},
	"policy":                       {ScopeNamespaced: {"PodDisruptionBudget"}, ScopeCluster: {"PodSecurityPolicy"}},
	RBACGroup:                      {ScopeNamespaced: {"Role", "RoleBinding"}, ScopeCluster: {"ClusterRole", "ClusterRoleBinding"}},
	"resource.k8s.io":              {ScopeCluster: {"DeviceClass"}},
	"runtime.cluster.x-k8s.io":     {ScopeCluster: {"ExtensionConfig"}},
	"scheduling.k8s.io":            {ScopeCluster: {"PriorityClass"}},
	"security.openshift.io":        {ScopeCluster: {"SecurityContextConstraints"}},
	"storage.k8s.io":               {ScopeCluster: {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"}},
})

func scopesOf(groups map[string]map[Scope][]string) Scopes {
	scopes := Scopes{}
	for group, byScope := range groups {
		for scope, kinds := range byScope {
			for _, kind := range kinds {
				scopes[schema.GroupKind{Group: group, Kind: kind}] = scope
			}
		}
	}
	return scopes
}

// scopeNames are the values of a CRD's spec.scope.
var scopeNames = map[string]Scope{"Namespaced": ScopeNamespaced, "Cluster": ScopeCluster}

// DefinedKind returns the group and kind that a CRD defines.
func DefinedKind(crd *unstructured.Unstructured) schema.GroupKind {
	return schema.GroupKind{Group: TextAt(crd.Object, "spec", "group"), Kind: TextAt(crd.Object, "spec", "names", "kind")}
}

// DefinedScopes returns the scopes of the kinds that the CRDs among objects define.
func DefinedScopes(objects []*unstructured.Unstructured) Scopes {
	scopes := Scopes{}
	for _, o := range objects {
		if IsCRD(o) {
			scopes[DefinedKind(o)] = scopeNames[TextAt(o.Object, "spec", "scope")]
		}
	}
	return scopes
}

// Of returns the scope of a kind. CRDs take precedence over the kinds of
// Kubernetes and OpenShift.
func (s Scopes) Of(kind schema.GroupKind) Scope {
	if scope := s[kind]; scope != ScopeUnknown {
		return scope
	}
	return knownScopes[kind]
}

// IsNamespaced reports whether an object is namespaced. An object of unknown scope
// counts as namespaced if it has a namespace.
func (s Scopes) IsNamespaced(o Object) bool {
	switch s.Of(GroupKind(o)) {
	case ScopeNamespaced:
		return true
	case ScopeCluster:
		return false
	default:
		return o.GetNamespace() != ""
	}
}
