// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// scope says whether the objects of a kind live in namespaces.
type scope bool

const (
	inNamespace scope = true
	inCluster   scope = false
)

// knownScopes are the scopes of the kinds that providers use and no CRD of
// theirs defines. Kinds that are not listed are left to the API server.
var knownScopes = scopesOf(map[string]map[scope][]string{
	"": {
		inNamespace: {"ConfigMap", "Endpoints", "LimitRange", "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"},
		inCluster:   {"Namespace", "Node", "PersistentVolume"},
	},
	"admissionregistration.k8s.io": {
		inCluster: {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
	},
	"apiextensions.k8s.io":      {inCluster: {"CustomResourceDefinition"}},
	"apiregistration.k8s.io":    {inCluster: {"APIService"}},
	"apps":                      {inNamespace: {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}},
	"autoscaling":               {inNamespace: {"HorizontalPodAutoscaler"}},
	"batch":                     {inNamespace: {"CronJob", "Job"}},
	"cert-manager.io":           {inNamespace: {"Certificate", "Issuer"}, inCluster: {"ClusterIssuer"}},
	"coordination.k8s.io":       {inNamespace: {"Lease"}},
	"discovery.k8s.io":          {inNamespace: {"EndpointSlice"}},
	"monitoring.coreos.com":     {inNamespace: {"PodMonitor", "PrometheusRule", "ServiceMonitor"}},
	"networking.k8s.io":         {inNamespace: {"Ingress", "NetworkPolicy"}, inCluster: {"IngressClass"}},
	"policy":                    {inNamespace: {"PodDisruptionBudget"}},
	"rbac.authorization.k8s.io": {inNamespace: {"Role", "RoleBinding"}, inCluster: {"ClusterRole", "ClusterRoleBinding"}},
	"scheduling.k8s.io":         {inCluster: {"PriorityClass"}},
	"security.openshift.io":     {inCluster: {"SecurityContextConstraints"}},
	"storage.k8s.io":            {inCluster: {"CSIDriver", "StorageClass"}},
})

func scopesOf(groups map[string]map[scope][]string) map[schema.GroupKind]scope {
	scopes := map[schema.GroupKind]scope{}
	for group, byScope := range groups {
		for scope, kinds := range byScope {
			for _, kind := range kinds {
				scopes[schema.GroupKind{Group: group, Kind: kind}] = scope
			}
		}
	}
	return scopes
}

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// definedScope returns the kind that a CRD defines, and its scope.
func definedScope(obj *unstructured.Unstructured) (schema.GroupKind, scope, bool) {
	if obj.GroupVersionKind().GroupKind() != crdKind {
		return schema.GroupKind{}, false, false
	}
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	value, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
	return schema.GroupKind{Group: group, Kind: kind}, value == "Namespaced", value != ""
}

// checkIdentity returns an error for everything that keeps an object from having
// one name that no other object has.
func checkIdentity(obj *unstructured.Unstructured, defined map[schema.GroupKind]scope) (errs []error) {
	if obj.GetAPIVersion() == "" {
		errs = append(errs, errors.New("apiVersion is missing"))
	} else if _, err := schema.ParseGroupVersion(obj.GetAPIVersion()); err != nil {
		errs = append(errs, fmt.Errorf("apiVersion: %w", err))
	}
	if obj.GetKind() == "" {
		errs = append(errs, errors.New("kind is missing"))
	}
	switch {
	case obj.GetName() != "":
	case obj.GetGenerateName() != "":
		errs = append(errs, errors.New("metadata.generateName makes another object each time it is applied; use metadata.name"))
	default:
		errs = append(errs, errors.New("metadata.name is missing"))
	}
	if err := checkNamespace(obj, defined); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func checkNamespace(obj *unstructured.Unstructured, defined map[schema.GroupKind]scope) error {
	kind := obj.GroupVersionKind().GroupKind()
	where, known := knownScopes[kind]
	if !known {
		where, known = defined[kind]
	}
	switch namespace := obj.GetNamespace(); {
	case known && where == inNamespace && namespace == "":
		return fmt.Errorf("metadata.namespace is missing; providers live in %s", v1alpha1.OperandNamespace)
	case known && where == inCluster && namespace != "":
		return fmt.Errorf("metadata.namespace is %q, but a %s does not live in a namespace", namespace, kind.Kind)
	default:
		return nil
	}
}
