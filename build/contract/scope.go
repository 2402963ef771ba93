// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterctlScope are the cluster-scoped kinds of clusterctl, from its cmd/clusterctl/internal/util/objs.go.
var clusterctlScope = []string{
	"Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "CertificateSigningRequest", "ClusterRoleBinding",
	"ClusterRole", "VolumeAttachment", "StorageClass", "CSIDriver", "CSINode", "ValidatingWebhookConfiguration",
	"MutatingWebhookConfiguration", "CustomResourceDefinition", "PriorityClass", "RuntimeClass",
}

// otherClusterScoped are further cluster-scoped kinds of Kubernetes, Cluster API and cert-manager.
var otherClusterScoped = []schema.GroupKind{
	{Group: admissionGroup, Kind: "ValidatingAdmissionPolicy"}, {Group: admissionGroup, Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: admissionGroup, Kind: "MutatingAdmissionPolicy"}, {Group: admissionGroup, Kind: "MutatingAdmissionPolicyBinding"},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}, {Group: certManagerGroup, Kind: "ClusterIssuer"},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}, {Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
	{Group: "networking.k8s.io", Kind: "IngressClass"}, {Group: "resource.k8s.io", Kind: "DeviceClass"},
	{Group: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig"},
}

// clusterScoped reports whether an object is known to be cluster-scoped.
func (b *Bundle) clusterScoped(o *Object) bool {
	if d := b.defined(o.Kind.Group, o.Kind.Kind); d != nil {
		return d.At("spec", "scope").Text() == "Cluster"
	}
	return slices.Contains(clusterctlScope, o.Kind.Kind) || slices.Contains(otherClusterScoped, o.Kind)
}
