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
	for _, toleration := range placement.Tolerations {
		add(pod, "tolerations", plain(toleration))
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
	for _, change := range podChanges(*settings) {
		for _, obj := range all {
			a.change(path.Child(change.field), path.Child(change.field), obj, func(obj *unstructured.Unstructured) error { return change.apply(object.PodSpec(obj)) })
		}
	}
	for _, change := range singleChanges(*settings) {
		if len(all) > 1 {
			a.errs = append(a.errs, field.Forbidden(path.Child(change.field), fmt.Sprintf("the component has the Deployments %s; patches can change each one", namesOf(all))))
			continue
		}
		a.change(path.Child(change.field), path.Child(change.field), all[0], func(obj *unstructured.Unstructured) error { return change.apply(object.MapAt(obj.Object, "spec")) })
	}
}

func namesOf(objects []*unstructured.Unstructured) string {
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetName())
	}
	return strings.Join(names, ", ")
}

// fieldChange is the effect of one field of the settings on a map.
type fieldChange struct {
	field string
	apply func(map[string]any) error
}

// podChanges returns the changes of pod specs, for every Deployment of the component.
func podChanges(s v1alpha1.DeploymentSettings) (changes []fieldChange) {
	change := func(is bool, field string, apply func(pod map[string]any)) {
		if is {
			changes = append(changes, fieldChange{field, func(pod map[string]any) error { apply(pod); return nil }})
		}
	}
	change(len(s.NodeSelector) > 0, "nodeSelector", func(pod map[string]any) { addPlacement(pod, v1alpha1.Placement{NodeSelector: s.NodeSelector}) })
	change(len(s.Tolerations) > 0, "tolerations", func(pod map[string]any) { addPlacement(pod, v1alpha1.Placement{Tolerations: s.Tolerations}) })
	change(s.Affinity != nil, "affinity", func(pod map[string]any) { pod["affinity"] = plain(s.Affinity) })
	change(s.PriorityClassName != "", "priorityClassName", func(pod map[string]any) { pod["priorityClassName"] = s.PriorityClassName })
	change(len(s.ImagePullSecrets) > 0, "imagePullSecrets", func(pod map[string]any) {
		for _, name := range s.ImagePullSecrets {
			add(pod, "imagePullSecrets", map[string]any{"name": name})
		}
	})
	return changes
}

// singleChanges returns the changes of the spec of the component's only Deployment.
func singleChanges(s v1alpha1.DeploymentSettings) (changes []fieldChange) {
	if s.Replicas != nil {
		changes = append(changes, fieldChange{"replicas", func(spec map[string]any) error {
			spec["replicas"] = int64(*s.Replicas)
			return nil
		}})
	}
	if len(s.TopologySpreadConstraints) > 0 {
		changes = append(changes, fieldChange{"topologySpreadConstraints", func(spec map[string]any) error {
			for _, constraint := range s.TopologySpreadConstraints {
				add(object.MapAt(spec, "template", "spec"), "topologySpreadConstraints", plain(constraint))
			}
			return nil
		}})
	}
	inManager := func(field string, apply func(container map[string]any)) {
		changes = append(changes, fieldChange{field, func(spec map[string]any) error {
			container, err := manager(object.MapAt(spec, "template", "spec"))
			if err == nil {
				apply(container)
			}
			return err
		}})
	}
	if s.Resources != nil {
		inManager("resources", func(container map[string]any) {
			for kind, list := range plain(s.Resources).(map[string]any) {
				for resource, quantity := range list.(map[string]any) {
					object.EnsureMap(container, "resources", kind)[resource] = quantity
				}
			}
		})
	}
	if len(s.Args) > 0 {
		inManager("args", func(container map[string]any) {
			for _, argument := range s.Args {
				setArgument(container, argument)
			}
		})
	}
	return changes
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
