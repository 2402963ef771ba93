// SPDX-License-Identifier: Apache-2.0

package object

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// ClientConfigs returns the client configurations in an object. They refer to a
// Service: {service: {namespace, name}, caBundle}. Missing ones are nil.
func ClientConfigs(o *unstructured.Unstructured) []map[string]any {
	switch GroupKind(o) {
	case MutatingWebhookConfiguration, ValidatingWebhookConfiguration:
		var configs []map[string]any
		for _, webhook := range MapsAt(o.Object, "webhooks") {
			configs = append(configs, MapAt(webhook, "clientConfig"))
		}
		return configs
	case CustomResourceDefinition:
		return []map[string]any{MapAt(o.Object, "spec", "conversion", "webhook", "clientConfig")}
	case ExtensionConfig:
		return []map[string]any{MapAt(o.Object, "spec", "clientConfig")}
	case APIService:
		return []map[string]any{MapAt(o.Object, "spec")}
	}
	return nil
}
