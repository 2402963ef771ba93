// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Installable are the kinds that the installer's roles in this project's manifests allow it to write; the value reports
// whether they are namespaced.
var Installable = map[schema.GroupKind]bool{
	object.CustomResourceDefinition:                              false,
	object.ClusterRole:                                           false,
	object.ClusterRoleBinding:                                    false,
	object.MutatingWebhookConfiguration:                          false,
	object.ValidatingWebhookConfiguration:                        false,
	object.ValidatingAdmissionPolicy:                             false,
	object.ValidatingAdmissionPolicyBinding:                      false,
	object.CompatibilityRequirement:                              false,
	object.ConfigMap:                                             true,
	object.ServiceAccount:                                        true,
	object.Service:                                               true,
	object.Deployment:                                            true,
	object.DaemonSet:                                             true,
	object.StatefulSet:                                           true,
	{Group: "monitoring.coreos.com", Kind: "PodMonitor"}:         true,
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}:     true,
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:     true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:          true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:               true,
	{Group: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig"}: false,
	object.Role:        true,
	object.RoleBinding: true,
}

// kindNamed returns the kind that the installer knows by a name. An object without apiVersion gets that kind, so that
// only the rule about the missing field reports the object.
func kindNamed(name string) schema.GroupKind {
	for kind := range Installable {
		if kind.Kind == name {
			return kind
		}
	}
	return schema.GroupKind{Kind: name}
}

// PodSpec returns the pod spec of an object; it does not exist if the object has no pods.
func PodSpec(o *Object) Value {
	path, found := object.PodSpecPath(o.Kind)
	if !found {
		return Value{Object: o}
	}
	return o.At(path...)
}

// PodTemplate returns the metadata and spec of the pods of an object, and reports
// whether its kind has pods.
func PodTemplate(o *Object) (Value, bool) {
	path, found := object.PodTemplatePath(o.Kind)
	return o.At(path...), found
}

// ServiceAccount returns the name of the service account in a pod spec: serviceAccountName, or its deprecated alias
// serviceAccount: the API server copies it.
func ServiceAccount(spec Value) Value {
	name := spec.At("serviceAccountName")
	if alias := spec.At("serviceAccount"); name.Text() == "" && alias.Text() != "" {
		return alias
	}
	return name
}

// Containers returns the containers of the pods of an object.
func Containers(o *Object) iter.Seq[Value] { return ContainersOf(PodSpec(o)) }

// ContainersOf returns the containers of a pod spec.
func ContainersOf(spec Value) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for _, field := range object.ContainerFields() {
			for _, container := range spec.At(field).Items() {
				if !yield(container) {
					return
				}
			}
		}
	}
}

// NameOf returns the name of a container for messages.
func NameOf(container Value) string { return "container " + container.At("name").Text() }

// ClusterctlScope are the cluster-scoped kinds of clusterctl, from its cmd/clusterctl/internal/util/objs.go.
var ClusterctlScope = []string{
	"Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "CertificateSigningRequest", "ClusterRoleBinding",
	"ClusterRole", "VolumeAttachment", "StorageClass", "CSIDriver", "CSINode", "ValidatingWebhookConfiguration",
	"MutatingWebhookConfiguration", "CustomResourceDefinition", "PriorityClass", "RuntimeClass",
}
