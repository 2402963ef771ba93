// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var workloadAnnotations = Transform{
	Name:    "workload-annotations",
	Does:    "Annotates pods as management workload for CPU partitioning, and selects the security context constraints restricted-v2, or nonroot-v2 for pods that set user or group IDs.",
	Why:     "Without the annotation, a node with partitioned CPUs runs the provider on the CPUs of the user's workload. Without selected constraints, a pod can be admitted under constraints that an administrator adds to the cluster, and then fail at its next start.",
	Profile: only(extractor.OpenShift),
	Apply: eachObject(func(o *unstructured.Unstructured) {
		if template := object.PodTemplate(o); template != nil {
			annotations := object.EnsureMap(template, "metadata", "annotations")
			object.SetDefault(annotations, "target.workload.openshift.io/management", `{"effect": "PreferredDuringScheduling"}`)
			object.SetDefault(annotations, object.RequiredSCC, sccFor(o, template))
		}
	}),
}
