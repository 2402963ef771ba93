// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// registriesRole is the role that reads OpenShift's registry configuration.
const registriesRole = "openshift-capi-installer-registries"

// imagesConfigMap is the ConfigMap with images.json.
const imagesConfigMap = "cluster-api-installer-images"

// transportPolicy protects transport ConfigMaps: only an OpenShift release ships bundles in them.
const transportPolicy = "openshift-capi-installer-transport"

// forKubernetes reports whether an object of the release is needed in a cluster without OpenShift. There, the installer
// creates the ClusterAPI object itself: kubectl and Helm cannot apply a kind together with its CRD.
func forKubernetes(o *unstructured.Unstructured) bool {
	return o.GetKind() != "ClusterAPI" && o.GetKind() != "ClusterOperator" && o.GetNamespace() != "openshift-config" &&
		!slices.Contains([]string{registriesRole, transportPolicy}, o.GetName())
}

// adapt removes everything of OpenShift from an object, and sets the names.
func adapt(o *unstructured.Unstructured, namespaces v1alpha1.Namespaces) error {
	dropKeys(object.MapAt(o.Object, "metadata"))
	dropKeys(object.MapAt(object.PodTemplate(o), "metadata"))
	if object.IsCRD(o) {
		return nil // its descriptions have examples
	}
	rename(o.Object, replacer(namespaces))
	switch o.GetKind() {
	case "ClusterRole":
		return dropRules(o)
	case "ConfigMap":
		if o.GetName() != imagesConfigMap {
			return nil
		}
		o.Object["data"] = map[string]any{"release-version": "0.0.1-snapshot", "platform": "None", "images.json": "{}"}
	case "ValidatingAdmissionPolicy":
		spec := object.MapAt(o.Object, "spec")
		conditions, _ := spec["matchConditions"].([]any)
		spec["matchConditions"] = slices.DeleteFunc(conditions, func(condition any) bool {
			return slices.Contains([]any{"not-openshift", "not-cluster-capi-operator"}, condition.(map[string]any)["name"])
		})
		if len(conditions) == 0 {
			delete(spec, "matchConditions")
		}
	case "Deployment":
		return adaptDeployment(o, namespaces)
	case "NetworkPolicy": // clients of /metrics are authenticated and authorized, wherever they run
		spec := object.MapAt(o.Object, "spec")
		rule := spec["ingress"].([]any)[0].(map[string]any)
		rule["from"] = []any{map[string]any{"namespaceSelector": map[string]any{}}}
	}
	return nil
}

// replacer replaces the names of an OpenShift release, the longest first.
func replacer(namespaces v1alpha1.Namespaces) *strings.Replacer {
	return strings.NewReplacer(
		"openshift-cluster-api-installer", "cluster-api-installer", "openshift-capi-installer", "capi-installer",
		"capi-installer/manifests", "capi-installer/deploy/kubernetes",
		v1alpha1.OpenShiftNamespaces.Operator, namespaces.Operator, v1alpha1.OpenShiftNamespaces.Operand, namespaces.Operand,
		v1alpha1.KubernetesNamespaces.Operator, namespaces.Operator, v1alpha1.KubernetesNamespaces.Operand, namespaces.Operand,
	)
}

// dropKeys removes the labels and annotations of OpenShift.
func dropKeys(metadata map[string]any) {
	for _, field := range []string{"annotations", "labels"} {
		keys := object.MapAt(metadata, field)
		maps.DeleteFunc(keys, func(key string, _ any) bool { return isOpenShift(strings.Split(key, "/")[0]) })
		if len(keys) == 0 {
			delete(metadata, field)
		}
	}
}

// isOpenShift reports whether an API group or the domain of a label is OpenShift's, and not the installer's.
func isOpenShift(domain string) bool {
	return domain != v1alpha1.Prefix && (domain == "openshift.io" || strings.HasSuffix(domain, ".openshift.io"))
}

// rename replaces names in all text of an object, such as expressions of admission policies. Names of objects that the
// program creates stay: roles refer to them with resourceNames.
func rename(value any, names *strings.Replacer) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key != "resourceNames" {
				value[key] = rename(inner, names)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = rename(inner, names)
		}
	case string:
		return names.Replace(value)
	}
	return value
}

// dropRules removes the rules about API groups of OpenShift.
func dropRules(o *unstructured.Unstructured) error {
	rules, found, err := unstructured.NestedSlice(o.Object, "rules")
	if err != nil || !found {
		return err // an aggregated role has none
	}
	rules = slices.DeleteFunc(rules, func(rule any) bool {
		groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
		return len(groups) > 0 && !slices.ContainsFunc(groups, func(group string) bool { return !isOpenShift(group) })
	})
	if o.GetName() == "cluster-api-installer" {
		rules = append(rules, map[string]any{"apiGroups": []any{v1alpha1.Prefix}, "resources": []any{"clusterapis"}, "verbs": []any{"create"}})
	}
	return unstructured.SetNestedSlice(o.Object, rules, "rules")
}

// image is the placeholder of the installer's image.
const image = "capi-installer"

// adaptDeployment sets the arguments, and lets the pod run on any node.
func adaptDeployment(o *unstructured.Unstructured, namespaces v1alpha1.Namespaces) error {
	pod := object.MapAt(object.PodTemplate(o), "spec")
	delete(pod, "nodeSelector") // nodes may have no label for control planes
	tolerations, _, err := unstructured.NestedSlice(pod, "tolerations")
	if err != nil {
		return err
	}
	pod["tolerations"] = append([]any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}}, tolerations...)
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return fmt.Errorf("%d containers, want 1", len(containers))
	}
	container := containers[0].(map[string]any)
	container["image"] = image
	container["args"] = append(container["args"].([]any), "--create-clusterapi", "--namespace="+namespaces.Operator, "--providers-namespace="+namespaces.Operand, "--registry-config-namespace="+namespaces.Operator)
	environment, _ := container["env"].([]any)
	environment = slices.DeleteFunc(environment, func(variable any) bool {
		return variable.(map[string]any)["name"] == "RELEASE_VERSION" // it is in the mounted file, whose changes need no restart
	})
	container["env"] = append(environment, fromImages("PLATFORM", "platform"))
	return nil
}

// fromImages returns an environment variable with the value that a key of the ConfigMap with the images has at the start of the pod.
func fromImages(name, key string) map[string]any {
	return map[string]any{"name": name, "valueFrom": map[string]any{"configMapKeyRef": map[string]any{"name": imagesConfigMap, "key": key}}}
}
