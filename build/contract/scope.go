// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"

	"github.com/capi-installer/capi-installer/internal/object"
)

// ClusterctlScope are the cluster-scoped kinds of clusterctl, from its cmd/clusterctl/internal/util/objs.go.
var ClusterctlScope = []string{
	"Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "CertificateSigningRequest", "ClusterRoleBinding",
	"ClusterRole", "VolumeAttachment", "StorageClass", "CSIDriver", "CSINode", "ValidatingWebhookConfiguration",
	"MutatingWebhookConfiguration", "CustomResourceDefinition", "PriorityClass", "RuntimeClass",
}

// ClusterScoped reports whether an object is known to be cluster-scoped.
func (b *Bundle) ClusterScoped(o *Object) bool {
	if d := b.Definitions.Kind(o.Kind.Group, o.Kind.Kind); d != nil {
		return d.At("spec", "scope").Text() == "Cluster"
	}
	return slices.Contains(ClusterctlScope, o.Kind.Kind) || object.Scopes(nil).Of(o.Kind) == object.ScopeCluster
}
