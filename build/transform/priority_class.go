// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var priorityClass = Transform{
	Name:    "priority-class",
	Does:    "Sets the priority class system-cluster-critical on pods without one.",
	Why:     "A full node evicts pods without a priority first, but a cluster that is short of nodes needs its providers to add some.",
	Profile: only(extractor.OpenShift),
	Apply: eachObject(func(o *unstructured.Unstructured) {
		if template := object.PodTemplate(o); template != nil {
			object.SetDefault(object.EnsureMap(template, "spec"), "priorityClassName", "system-cluster-critical")
		}
	}),
}
