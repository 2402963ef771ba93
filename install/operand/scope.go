// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// scope says where the objects of a kind live.
type scope int

const (
	_ scope = iota // not known
	inNamespace
	inCluster
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

// definedScopes returns the scopes of the kinds that the CRDs among objects define.
func definedScopes(objects []rendered) map[schema.GroupKind]scope {
	defined := map[schema.GroupKind]scope{}
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
		value, _, _ := unstructured.NestedString(object.Object, "spec", "scope")
		defined[schema.GroupKind{Group: group, Kind: kind}] = scopeNames[value]
	}
	return defined
}

// scopeNames are the values of a CRD's spec.scope.
var scopeNames = map[string]scope{"Namespaced": inNamespace, "Cluster": inCluster}

// checkIdentity returns an error for everything that keeps an object from having
// one name that no other object has.
func checkIdentity(obj *unstructured.Unstructured, defined map[schema.GroupKind]scope) (errs []error) {
	if errs := checkStrings(obj); errs != nil {
		return errs
	}
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

// checkStrings returns an error for each field of an object's identity that is
// something else than a string, such as the boolean that YAML makes of a bare n.
func checkStrings(obj *unstructured.Unstructured) (errs []error) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			return append(errs, err)
		}
		if _, isString := value.(string); found && !isString {
			errs = append(errs, fmt.Errorf("%s is %v, which is no string; put it in quotes", strings.Join(path, "."), value))
		}
	}
	return errs
}

func checkNamespace(obj *unstructured.Unstructured, defined map[schema.GroupKind]scope) error {
	if obj.GetNamespace() == "" && scopeOf(obj, defined) == inNamespace {
		return fmt.Errorf("metadata.namespace is missing; providers live in %s", v1alpha1.OperandNamespace)
	}
	return nil
}

// dropNamespace removes the namespace from an object that lives in none. The API
// server ignores it there, kustomize leaves it on kinds that it does not know,
// and whoever looks the object up by it does not find it.
func dropNamespace(obj *unstructured.Unstructured, defined map[schema.GroupKind]scope) {
	if scopeOf(obj, defined) == inCluster {
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	}
}

func scopeOf(obj *unstructured.Unstructured, defined map[schema.GroupKind]scope) scope {
	kind := obj.GroupVersionKind().GroupKind()
	if known, found := knownScopes[kind]; found {
		return known
	}
	return defined[kind]
}
