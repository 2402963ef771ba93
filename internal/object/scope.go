// SPDX-License-Identifier: Apache-2.0

package object

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
