// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// deploymentsOf returns the Deployments among the objects of a component.
func deploymentsOf(objects []*unstructured.Unstructured) (found []*unstructured.Unstructured) {
	for _, obj := range objects {
		if object.GroupKind(obj) == object.Deployment {
			found = append(found, obj)
		}
	}
	return found
}

// place applies the placement of all components. Settings of the component take precedence, so it records no fields.
func (a *application) place(placement *v1alpha1.Placement) {
	if placement == nil {
		return
	}
	for _, obj := range deploymentsOf(a.objects) {
		addPlacement(object.PodSpec(obj), *placement)
		a.names = []string{"placement"}
	}
}

func addPlacement(pod map[string]any, placement v1alpha1.Placement) {
	for key, value := range placement.NodeSelector {
		object.EnsureMap(pod, "nodeSelector")[key] = value
	}
	for _, toleration := range items(placement.Tolerations) {
		add(pod, "tolerations", toleration)
	}
}

// deploy applies the settings of the component's Deployments.
func (a *application) deploy(path *field.Path, settings *v1alpha1.DeploymentSettings) {
	if settings == nil {
		return
	}
	all := deploymentsOf(a.objects)
	if len(all) == 0 {
		a.errs = append(a.errs, field.Forbidden(path, "the component has no Deployment"))
		return
	}
	for _, change := range changes(*settings) {
		setting := path.Child(change.field)
		switch {
		case !change.isSet:
		case change.single && len(all) > 1:
			a.errs = append(a.errs, field.Forbidden(setting, fmt.Sprintf("the component has the Deployments %s; patches can change each one", strings.Join(Deployments(all), ", "))))
		default:
			for _, obj := range all {
				a.change(setting, setting, obj, change.apply)
			}
		}
	}
}

// fieldChange is the effect of a field of the settings on a Deployment.
type fieldChange struct {
	field string
	isSet bool
	// single is set for a field of the component's only Deployment.
	single bool
	apply  func(deployment *unstructured.Unstructured) error
}

// changes returns the effects of all fields.
func changes(s v1alpha1.DeploymentSettings) []fieldChange {
	type change = func(*unstructured.Unstructured) error
	inPod := func(apply func(pod map[string]any)) change {
		return func(obj *unstructured.Unstructured) error { apply(object.PodSpec(obj)); return nil }
	}
	added := func(field string, items ...any) change {
		return inPod(func(pod map[string]any) {
			for _, item := range items {
				add(pod, field, item)
			}
		})
	}
	inManager := func(apply func(container map[string]any)) change {
		return func(obj *unstructured.Unstructured) error {
			container, err := manager(object.PodSpec(obj))
			if err == nil {
				apply(container)
			}
			return err
		}
	}
	var secrets []any
	for _, name := range s.ImagePullSecrets {
		secrets = append(secrets, map[string]any{"name": name})
	}
	return []fieldChange{
		{"nodeSelector", len(s.NodeSelector) > 0, false, inPod(func(pod map[string]any) { addPlacement(pod, v1alpha1.Placement{NodeSelector: s.NodeSelector}) })},
		{"tolerations", len(s.Tolerations) > 0, false, added("tolerations", items(s.Tolerations)...)},
		{"affinity", s.Affinity != nil, false, inPod(func(pod map[string]any) { pod["affinity"] = plain(s.Affinity) })},
		{"priorityClassName", s.PriorityClassName != "", false, inPod(func(pod map[string]any) { pod["priorityClassName"] = s.PriorityClassName })},
		{"imagePullSecrets", len(secrets) > 0, false, added("imagePullSecrets", secrets...)},
		{"replicas", s.Replicas != nil, true, func(obj *unstructured.Unstructured) error {
			return unstructured.SetNestedField(obj.Object, int64(*s.Replicas), "spec", "replicas")
		}},
		{"topologySpreadConstraints", len(s.TopologySpreadConstraints) > 0, true, added("topologySpreadConstraints", items(s.TopologySpreadConstraints)...)},
		{"resources", s.Resources != nil, true, inManager(func(container map[string]any) {
			for kind, list := range plain(s.Resources).(map[string]any) {
				for resource, quantity := range list.(map[string]any) {
					object.EnsureMap(container, "resources", kind)[resource] = quantity
				}
			}
		})},
		{"args", len(s.Args) > 0, true, inManager(func(container map[string]any) {
			for _, argument := range s.Args {
				setArgument(container, argument)
			}
		})},
	}
}

// items returns the items of a list as unstructured JSON.
func items[T any](list []T) (out []any) {
	for _, item := range list {
		out = append(out, plain(item))
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
func setArgument(container map[string]any, argument string) {
	flag := flagOf(argument)
	old, _ := container["args"].([]any)
	kept := make([]any, 0, len(old)+1)
	at := -1
	for i := 0; i < len(old); i++ {
		text, _ := old[i].(string)
		if flagOf(text) != flag {
			kept = append(kept, old[i])
			continue
		}
		if at < 0 {
			at = len(kept)
			kept = append(kept, argument)
		}
		if hasSeparateValue(old, i) {
			i++
		}
	}
	if at < 0 {
		kept = append(kept, argument)
	}
	container["args"] = kept
}

// flagOf returns the name of the flag in an argument; empty for another argument. One dash and two dashes are the same.
func flagOf(argument string) string {
	if !strings.HasPrefix(argument, "-") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
	return name
}

// hasSeparateValue reports whether the argument after a flag is the flag's value.
func hasSeparateValue(arguments []any, i int) bool {
	text, _ := arguments[i].(string)
	if strings.Contains(text, "=") || i+1 == len(arguments) {
		return false
	}
	next, _ := arguments[i+1].(string)
	return !strings.HasPrefix(next, "-")
}

// switchFeatures changes the feature gates in the arguments of containers.
func (a *application) switchFeatures(path *field.Path, gates []v1alpha1.FeatureGate) {
	for i, gate := range gates {
		known, found := []string{}, false
		for _, obj := range deploymentsOf(a.objects) {
			for _, container := range object.MapsAt(object.PodSpec(obj), "containers") {
				var names []string
				for _, has := range featureGates(container) {
					name, _, _ := strings.Cut(has, "=")
					names = append(names, name)
				}
				known = append(known, names...)
				if !slices.Contains(names, gate.Name) {
					continue
				}
				found = true
				if by := a.variableOfGate(obj, gate.Name); by != "" { // even if both have the same value
					a.errs = append(a.errs, field.Forbidden(path.Key(gate.Name), by+" also sets the feature gate"))
					continue
				}
				a.change(path, path.Key(gate.Name), obj, func(*unstructured.Unstructured) error {
					setFeatureGate(container, gate)
					return nil
				})
			}
		}
		if !found {
			a.errs = append(a.errs, field.NotSupported(path.Index(i).Child("name"), gate.Name, slices.Compact(slices.Sorted(slices.Values(known)))))
		}
	}
}

// variableOfGate returns the variable in the settings that sets a feature gate of a Deployment; empty if there is none.
func (a *application) variableOfGate(obj *unstructured.Unstructured, gate string) string {
	for key, by := range a.setBy {
		if strings.HasPrefix(key, object.Describe(obj)+" ") && strings.HasSuffix(key, ".args.feature-gates."+gate) && strings.Contains(by, ".variables[") {
			return by
		}
	}
	return ""
}

const featureGatesFlag = "--feature-gates="

// featureGates returns NAME=VALUE for each feature gate in the argument --feature-gates of a container.
func featureGates(container map[string]any) (gates []string) {
	arguments, _ := container["args"].([]any)
	for _, argument := range arguments {
		text, _ := argument.(string)
		if list, found := strings.CutPrefix(text, featureGatesFlag); found {
			for gate := range strings.SplitSeq(list, ",") {
				gates = append(gates, strings.TrimSpace(gate))
			}
		}
	}
	return gates
}

func setFeatureGate(container map[string]any, gate v1alpha1.FeatureGate) {
	arguments, _ := container["args"].([]any)
	for i := range arguments {
		text, _ := arguments[i].(string)
		list, found := strings.CutPrefix(text, featureGatesFlag)
		if !found {
			continue
		}
		all := strings.Split(list, ",")
		for j := range all {
			if name, _, _ := strings.Cut(all[j], "="); strings.TrimSpace(name) == gate.Name {
				all[j] = fmt.Sprintf("%s=%t", gate.Name, gate.Enabled)
			}
		}
		arguments[i] = featureGatesFlag + strings.Join(all, ",")
	}
}

// add adds an item to a list that does not contain it.
func add(parent map[string]any, field string, item any) {
	list, _ := parent[field].([]any)
	if !slices.ContainsFunc(list, func(old any) bool { return object.Equal(old, item) }) {
		parent[field] = append(slices.Clone(list), item)
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

// Gate is a feature gate that can be set.
type Gate struct {
	Name string `json:"name"`
	// Default is the value in the manifests, "true" or "false".
	Default string `json:"default"`
	// Deployment is the name of the Deployment with the argument --feature-gates.
	Deployment string `json:"deployment"`
}

// Gates returns the feature gates in the arguments of a component's Deployments.
func Gates(objects []*unstructured.Unstructured) (gates []Gate) {
	for _, obj := range deploymentsOf(objects) {
		for _, container := range object.MapsAt(object.PodSpec(obj), "containers") {
			for _, gate := range featureGates(container) {
				name, value, _ := strings.Cut(gate, "=")
				gates = append(gates, Gate{name, value, obj.GetName()})
			}
		}
	}
	return gates
}

// Deployments returns the names of a component's Deployments.
func Deployments(objects []*unstructured.Unstructured) (names []string) {
	for _, obj := range deploymentsOf(objects) {
		names = append(names, obj.GetName())
	}
	return names
}
