// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

const (
	// preStopSeconds is longer than kube-proxy needs to remove an endpoint from all nodes.
	preStopSeconds = 5
	// minimumGracePeriod is the time that a pod gets for the sleep and its own end. The API server rejects a sleep that is
	// longer than the grace period.
	minimumGracePeriod = 2 * preStopSeconds
)

var webhookPreStop = Transform{
	Name: "webhook-pre-stop",
	Does: fmt.Sprintf("Lets containers that serve webhooks sleep for %d s before they end, and extends a shorter termination grace period to %d s.", preStopSeconds, minimumGracePeriod),
	Why:  "A pod that ends is still an endpoint of its Service on nodes that do not know it yet. In an upgrade, requests that call its webhooks fail or hang if it closes its port at once. Kubernetes has this field from 1.30.",
	Apply: func(objects []*unstructured.Unstructured, _ Options) ([]*unstructured.Unstructured, error) {
		for _, service := range servicesWhere(objects, calledIn(objects)) {
			for _, o := range objects {
				if o.GetNamespace() == service.GetNamespace() && selects(service, o) {
					sleepBeforeStop(o, service)
				}
			}
		}
		return objects, nil
	},
}

// calledIn returns a function that reports whether webhooks or conversions call a Service.
func calledIn(objects []*unstructured.Unstructured) func(*unstructured.Unstructured) bool {
	type name struct{ namespace, name string }
	called := map[name]bool{}
	for _, o := range objects {
		if kind := object.GroupKind(o); kind == object.APIService || kind == object.ExtensionConfig {
			continue
		}
		for _, config := range object.ClientConfigs(o) {
			called[name{object.TextAt(config, "service", "namespace"), object.TextAt(config, "service", "name")}] = true
		}
	}
	return func(service *unstructured.Unstructured) bool {
		return called[name{service.GetNamespace(), service.GetName()}]
	}
}

// sleepBeforeStop sets the sleep in the containers of an object that serve a Service.
func sleepBeforeStop(o, service *unstructured.Unstructured) {
	spec := object.PodSpec(o)
	containers := object.MapsAt(spec, "containers")
	for _, container := range containers {
		if object.MapAt(container, "lifecycle", "preStop") != nil || !serves(container, service, len(containers)) {
			continue
		}
		object.EnsureMap(container, "lifecycle", "preStop", "sleep")["seconds"] = int64(preStopSeconds)
		if seconds, ok := spec["terminationGracePeriodSeconds"].(int64); ok && seconds < minimumGracePeriod {
			spec["terminationGracePeriodSeconds"] = int64(minimumGracePeriod)
		}
	}
}

// serves reports whether a container serves a port of a Service: it declares the port, or it is the only container: that
// one need not declare ports.
func serves(container map[string]any, service *unstructured.Unstructured, containers int) bool {
	for _, port := range object.MapsAt(service.Object, "spec", "ports") {
		target, set := port["targetPort"]
		if !set {
			target = port["port"]
		}
		for _, declared := range object.MapsAt(container, "ports") {
			if declared["name"] == target || declared["containerPort"] == target {
				return true
			}
		}
	}
	return containers == 1
}

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
