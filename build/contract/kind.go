// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The groups of the kinds that rules name.
const (
	rbacGroup        = "rbac.authorization.k8s.io"
	admissionGroup   = "admissionregistration.k8s.io"
	certManagerGroup = "cert-manager.io"
)

var (
	namespaceKind      = schema.GroupKind{Kind: "Namespace"}
	secretKind         = schema.GroupKind{Kind: "Secret"}
	serviceKind        = schema.GroupKind{Kind: "Service"}
	serviceAccountKind = schema.GroupKind{Kind: "ServiceAccount"}
	deploymentKind     = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	crdKind            = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	mutatingKind       = schema.GroupKind{Group: admissionGroup, Kind: "MutatingWebhookConfiguration"}
	validatingKind     = schema.GroupKind{Group: admissionGroup, Kind: "ValidatingWebhookConfiguration"}
	roleKind           = schema.GroupKind{Group: rbacGroup, Kind: "Role"}
	roleBindingKind    = schema.GroupKind{Group: rbacGroup, Kind: "RoleBinding"}
	clusterRoleKind    = schema.GroupKind{Group: rbacGroup, Kind: "ClusterRole"}
	clusterBindingKind = schema.GroupKind{Group: rbacGroup, Kind: "ClusterRoleBinding"}
)

// installable are the kinds that the installer's roles let it write, and whether
// they are namespaced. They are those of the roles in this project's manifests.
var installable = map[schema.GroupKind]bool{
	crdKind:            false,
	clusterRoleKind:    false,
	clusterBindingKind: false,
	mutatingKind:       false,
	validatingKind:     false,
	{Group: admissionGroup, Kind: "ValidatingAdmissionPolicy"}:              false,
	{Group: admissionGroup, Kind: "ValidatingAdmissionPolicyBinding"}:       false,
	{Group: "apiextensions.openshift.io", Kind: "CompatibilityRequirement"}: false,
	{Kind: "ConfigMap"}:                  true,
	serviceAccountKind:                   true,
	serviceKind:                          true,
	deploymentKind:                       true,
	{Group: "apps", Kind: "DaemonSet"}:   true,
	{Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "monitoring.coreos.com", Kind: "PodMonitor"}:     true,
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}: true,
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}: true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:      true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:           true,
	roleKind:        true,
	roleBindingKind: true,
}

// podSpecs says where the kinds that make pods hold the pod's spec.
var podSpecs = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                        {"spec"},
	{Kind: "PodTemplate"}:                {"template", "spec"},
	{Kind: "ReplicationController"}:      {"spec", "template", "spec"},
	deploymentKind:                       {"spec", "template", "spec"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec", "template", "spec"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "template", "spec"},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec", "template", "spec"},
	{Group: "batch", Kind: "Job"}:        {"spec", "template", "spec"},
	{Group: "batch", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
}

// podSpec is the spec of the pods that an object makes; it does not exist if it makes none.
func podSpec(o *Object) Value {
	path, found := podSpecs[o.Kind]
	if !found {
		return Value{object: o}
	}
	return o.At(path...)
}

// containers are those of the pods that an object makes.
func containers(o *Object) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		spec := podSpec(o)
		for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
			for _, container := range spec.At(field).Items() {
				if !yield(container) {
					return
				}
			}
		}
	}
}

// eachContainer makes a check of all containers out of one of one container.
func eachContainer(check func(Value) []Finding) func(*Bundle) []Finding {
	return eachObject(func(o *Object) (findings []Finding) {
		for container := range containers(o) {
			findings = append(findings, check(container)...)
		}
		return findings
	})
}

// eachPod makes a check of all pods out of one of a pod's spec.
func eachPod(check func(Value) []Finding) func(*Bundle) []Finding {
	return eachObject(func(o *Object) []Finding {
		if spec := podSpec(o); spec.Exists() {
			return check(spec)
		}
		return nil
	})
}

// nameOf names a container in messages.
func nameOf(container Value) string { return "container " + container.At("name").Text() }
