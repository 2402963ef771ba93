// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// deploymentsOf returns the Deployments among the objects of a component.
func deploymentsOf(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool { return object.GroupKind(obj) != object.Deployment })
}

// Deployments returns the names of a component's Deployments.
func Deployments(objects []*unstructured.Unstructured) (names []string) {
	for _, obj := range deploymentsOf(objects) {
		names = append(names, obj.GetName())
	}
	return names
}

// ofOneDeployment are the settings that require that the component has one Deployment.
var ofOneDeployment = []string{"args", "env", "replicas", "resources", "topologySpreadConstraints"}

// deploymentPatches returns a patch for each setting of the component's Deployments.
func deploymentPatches(path *field.Path, settings *v1alpha1.DeploymentSettings, objects []*unstructured.Unstructured) (patches []patch, errs field.ErrorList) {
	if settings == nil {
		return nil, nil
	}
	all := deploymentsOf(objects)
	if len(all) == 0 {
		return nil, field.ErrorList{field.Forbidden(path, "the component has no Deployment")}
	}
	values, _ := plain(settings).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		setting := path.Child(name)
		if len(all) > 1 && slices.Contains(ofOneDeployment, name) {
			errs = append(errs, field.Forbidden(setting, fmt.Sprintf("the component has the Deployments %s; patches can change each one", strings.Join(Deployments(all), ", "))))
			continue
		}
		patches = append(patches, patch{setting, all, func(obj *unstructured.Unstructured) error { return setDeployment(obj, name, values[name]) }})
	}
	return patches, errs
}

// setDeployment applies a setting to a Deployment. A setting without a case is a field of the pod.
func setDeployment(deployment *unstructured.Unstructured, name string, value any) error {
	pod := object.EnsureMap(deployment.Object, "spec", "template", "spec")
	switch name {
	case "replicas":
		merge(deployment.Object, "spec", map[string]any{name: value})
	case "affinity": // it replaces the affinity in the manifests
		pod[name] = runtime.DeepCopyJSONValue(value)
	case "imagePullSecrets":
		for _, secret := range value.([]any) {
			merge(pod, name, []any{map[string]any{"name": secret}})
		}
	case "resources", "args", "env":
		container, err := manager(pod)
		if err != nil {
			return err
		}
		switch name {
		case "resources":
			merge(container, name, value)
			return nil
		case "env":
			names := map[any]bool{}
			for _, variable := range object.MapsAt(map[string]any{name: value}, name) {
				names[variable["name"]] = true
			}
			container[name] = slices.DeleteFunc(slices.Clone(object.ListAt(container, name)), func(old any) bool {
				variable, _ := old.(map[string]any)
				return names[variable["name"]]
			})
			merge(container, name, value)
			return nil
		}
		seen := map[string]any{}
		for i, argument := range argumentsOf(map[string]any{"args": value}) {
			if other := seen[argument.flag]; other != nil {
				return fmt.Errorf("%s and %s set the same argument", other, argument.words[0])
			}
			seen[argument.flag] = argument.words[0]
			setArgument(container, value.([]any)[i].(string))
		}
	default:
		merge(pod, name, value)
	}
	return nil
}

// merge sets a field. A map is merged into the existing one, and a list gets the items that it does not contain.
func merge(parent map[string]any, field string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			merge(object.EnsureMap(parent, field), key, item)
		}
	case []any:
		list := object.ListAt(parent, field)
		for _, item := range value {
			if !slices.ContainsFunc(list, func(old any) bool { return object.Equal(old, item) }) {
				list = append(slices.Clone(list), runtime.DeepCopyJSONValue(item))
			}
		}
		parent[field] = list
	default:
		parent[field] = value
	}
}

// plain returns a value of the API as unstructured JSON.
func plain(value any) (out any) {
	content, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(content, &out)
	}
	if err != nil {
		return nil // unreachable: the API server has decoded the value from JSON
	}
	return out
}

// manager returns the container of a pod that runs the provider: its only container, or the one with the usual name.
func manager(pod map[string]any) (map[string]any, error) {
	containers := object.MapsAt(pod, "containers")
	if len(containers) == 1 {
		return containers[0], nil
	}
	for _, container := range containers {
		if container["name"] == "manager" {
			return container, nil
		}
	}
	return nil, errors.New(`it has several containers, and none is named "manager"; patches can change each one`)
}

// setArgument replaces the arguments of a container that have the same flag, or adds the argument.
func setArgument(container map[string]any, text string) {
	set := argumentsOf(map[string]any{"args": []any{text}})[0]
	words, replaced := []any{}, false
	for _, old := range argumentsOf(container) {
		switch {
		case old.flag != set.flag:
			words = append(words, old.words...)
		case !replaced:
			words, replaced = append(words, text), true
		}
	}
	if !replaced {
		words = append(words, text)
	}
	container["args"] = words
}

// Gate is a feature gate that can be set.
type Gate struct {
	Name string `json:"name"`
	// Default is the value in the manifests, "true" or "false".
	Default string `json:"default"`
	// Deployment is the name of the Deployment with the argument --feature-gates.
	Deployment string `json:"deployment"`
}

const featureGatesFlag = "--feature-gates="

// gatesOf returns the feature gates in an argument of a container; nil for another argument.
func gatesOf(argument string) (gates []Gate) {
	list, found := strings.CutPrefix(argument, featureGatesFlag)
	if !found {
		return nil
	}
	for gate := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
		gates = append(gates, Gate{Name: name, Default: value})
	}
	return gates
}

// Gates returns the feature gates in the arguments of a component's Deployments.
func Gates(objects []*unstructured.Unstructured) (gates []Gate) {
	for _, obj := range deploymentsOf(objects) {
		for _, container := range object.MapsAt(object.PodSpec(obj), "containers") {
			for _, argument := range object.TextsAt(container, "args") {
				for _, gate := range gatesOf(argument) {
					gate.Deployment = obj.GetName()
					gates = append(gates, gate)
				}
			}
		}
	}
	return gates
}

// featurePatches returns a patch for each feature gate that the manifests name.
func featurePatches(path *field.Path, settings []v1alpha1.FeatureGate, objects []*unstructured.Unstructured) (patches []patch, errs field.ErrorList) {
	names := []string{}
	for _, gate := range Gates(objects) {
		names = append(names, gate.Name)
	}
	slices.Sort(names)
	for i, gate := range settings {
		if !slices.Contains(names, gate.Name) {
			errs = append(errs, field.NotSupported(path.Index(i).Child("name"), gate.Name, slices.Compact(names)))
			continue
		}
		patches = append(patches, patch{path.Key(gate.Name), deploymentsOf(objects), func(obj *unstructured.Unstructured) error { setGate(obj, gate); return nil }})
	}
	return patches, errs
}

// setGate sets a feature gate in the arguments of a Deployment's containers.
func setGate(deployment *unstructured.Unstructured, gate v1alpha1.FeatureGate) {
	value := regexp.MustCompile(`\b` + regexp.QuoteMeta(gate.Name) + `=\w*`)
	for _, container := range object.MapsAt(object.PodSpec(deployment), "containers") {
		arguments := object.ListAt(container, "args")
		for i := range arguments {
			if list, found := strings.CutPrefix(fmt.Sprint(arguments[i]), featureGatesFlag); found {
				arguments[i] = featureGatesFlag + value.ReplaceAllLiteralString(list, fmt.Sprintf("%s=%t", gate.Name, gate.Enabled))
			}
		}
	}
}
