// SPDX-License-Identifier: Apache-2.0

package transform

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var webhookNamespaceSelector = Transform{
	Name:    "webhook-namespace-selector",
	Does:    "Restricts admission webhooks that have no namespace selector to the namespace of the installer.",
	Why:     "OpenShift's Cluster API objects are in one namespace. A webhook for all namespaces also validates the objects of users who run their own Cluster API, and rejects them while its server is unavailable.",
	Profile: only(extractor.OpenShift),
	Apply: func(objects []*unstructured.Unstructured, o Options) ([]*unstructured.Unstructured, error) {
		for _, each := range objects {
			if kind := object.GroupKind(each); kind != object.MutatingWebhookConfiguration && kind != object.ValidatingWebhookConfiguration {
				continue
			}
			for _, webhook := range object.MapsAt(each.Object, "webhooks") {
				if len(object.MapAt(webhook, "namespaceSelector")) == 0 {
					object.EnsureMap(webhook, "namespaceSelector", "matchLabels")[corev1.LabelMetadataName] = o.Namespace
				}
			}
		}
		return objects, nil
	},
}
