// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// clusterctlKey is the label that lets "clusterctl move" find the kinds of a management cluster.
const clusterctlKey = "clusterctl.cluster.x-k8s.io"

var clusterctlLabel = Transform{
	Name:    "clusterctl-label",
	Does:    "Labels CRDs with clusterctl.cluster.x-k8s.io, as \"clusterctl init\" does.",
	Why:     "\"clusterctl move\" finds only kinds whose CRD has the label: without it, a backup of a cluster is empty, and no error is reported.",
	Profile: only(extractor.Kubernetes),
	Apply: eachObject(func(o *unstructured.Unstructured) {
		if object.GroupKind(o) != object.CustomResourceDefinition {
			return
		}
		labels := o.GetLabels()
		if _, found := labels[clusterctlKey]; found {
			return
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[clusterctlKey] = ""
		o.SetLabels(labels)
	}),
}
