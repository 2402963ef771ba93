// SPDX-License-Identifier: Apache-2.0

// Package setting applies the settings of an administrator to components: the namespace, variables, feature gates, Deployments and patches.
// It is pure: settings and rendered objects in, changed objects out.
//
// Each error names its field in the spec of the ClusterAPI object. A setting never has no effect: one that names an unknown
// component, variable, feature gate or object is an error, and so are two settings of one field.
package setting

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Settings are the settings of a cluster. The zero value has none.
type Settings struct {
	// Placement applies to the Deployments of all components; nil if there is none.
	Placement *v1alpha1.Placement
	// Components are the settings of single components.
	Components []v1alpha1.ComponentSettings
	// Partial is set if only some components of the cluster are rendered: settings of others are no error.
	Partial bool
	// Secrets are the values of the variables that refer to Secrets.
	Secrets Secrets
	// Namespaces are the namespaces that components can have; nil allows any.
	Namespaces []string
	// Objects are the manifests in the ConfigMaps with additional objects, by the name of the ConfigMap.
	Objects map[string][]byte
}

// Of returns the settings in a spec.
func Of(spec v1alpha1.ClusterAPISpec) Settings {
	return Settings{Placement: spec.Placement, Components: spec.Components}
}

var componentsPath = field.NewPath("spec", "components")

// Check returns an error for each component with settings that is not among the given ones.
func (s Settings) Check(components []string) (errs field.ErrorList) {
	names := slices.Compact(slices.Sorted(slices.Values(components)))
	for i, settings := range s.Components {
		if !s.Partial && !slices.Contains(names, settings.Name) {
			errs = append(errs, field.NotSupported(componentsPath.Index(i).Child("name"), settings.Name, names))
		}
	}
	return errs
}

// For returns the settings of a component.
func (s Settings) For(component string) Component {
	at := slices.IndexFunc(s.Components, func(c v1alpha1.ComponentSettings) bool { return c.Name == component })
	if at < 0 {
		return Component{placement: s.Placement}
	}
	return Component{placement: s.Placement, Own: &s.Components[at], path: componentsPath.Index(at), objects: s.Objects, namespaces: s.Namespaces}
}

// Component are the settings of one component.
type Component struct {
	// Own are the component's own settings; nil if there are none.
	Own        *v1alpha1.ComponentSettings
	placement  *v1alpha1.Placement
	path       *field.Path
	objects    map[string][]byte
	namespaces []string
}

// Values returns the values of variables with the values in the settings; a variable that refers to a Secret has its placeholder. text
// is the text that uses the variables; openShift is set for manifests that are made for OpenShift, where some values are the cluster's own.
func (c Component) Values(cluster map[string]string, text []byte, openShift bool) (map[string]string, field.ErrorList) {
	if c.Own == nil || len(c.Own.Variables) == 0 {
		return cluster, nil
	}
	used, values := variable.Names(text), maps.Clone(cluster)
	if values == nil {
		values = map[string]string{}
	}
	var errs field.ErrorList
	for i, setting := range c.Own.Variables {
		path := c.path.Child("variables").Index(i)
		switch {
		case !used[setting.Name]:
			errs = append(errs, field.NotSupported(path.Child("name"), setting.Name, slices.Sorted(maps.Keys(used))))
		case openShift && variable.IsProvided(setting.Name):
			errs = append(errs, field.Forbidden(path.Child("name"), fmt.Sprintf("%s has the value of the cluster's configuration in OpenShift", setting.Name)))
		case setting.ValueFrom != nil && computes(text, setting.Name):
			errs = append(errs, field.Forbidden(path.Child("valueFrom"), fmt.Sprintf("an expression in the manifests changes the value of %s, so it cannot come from a Secret", setting.Name)))
		case setting.ValueFrom != nil:
			values[setting.Name] = Placeholder(setting.ValueFrom.SecretKeyRef)
		case setting.Value != nil:
			values[setting.Name] = *setting.Value
		}
	}
	return values, errs
}

// AdditionalObjects are the manifests of a ConfigMap that a component refers to.
type AdditionalObjects struct {
	// ConfigMap is the name of the ConfigMap, in the operator's namespace.
	ConfigMap string
	Manifests []byte
	// Path is the field with the reference.
	Path *field.Path
}

// AdditionalObjects returns the manifests of the component's additional objects, in the order of the references.
func (c Component) AdditionalObjects() (all []AdditionalObjects) {
	if c.Own == nil {
		return nil
	}
	for i, reference := range c.Own.AdditionalObjects {
		all = append(all, AdditionalObjects{reference.Name, c.objects[reference.Name], c.path.Child("additionalObjects").Index(i)})
	}
	return all
}

// Manifests returns the manifests in the data of a ConfigMap with additional objects: the values in the order of their keys.
func Manifests(data map[string]string) []byte {
	var documents []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		documents = append(documents, data[key])
	}
	return []byte(strings.Join(documents, "\n---\n"))
}

// References returns the ConfigMaps and Secrets that the settings refer to, each once, without versions. namespace is the operator's.
func (s Settings) References(namespace string) (inputs []v1alpha1.ObservedInput) {
	add := func(kind, name string) {
		input := v1alpha1.ObservedInput{Kind: kind, Namespace: namespace, Name: name}
		if !slices.Contains(inputs, input) {
			inputs = append(inputs, input)
		}
	}
	for _, name := range s.ConfigMaps() {
		add("ConfigMap", name)
	}
	for _, key := range s.SecretKeys() {
		add("Secret", key.Name)
	}
	return inputs
}

// ConfigMaps returns the names of the ConfigMaps with additional objects, each once.
func (s Settings) ConfigMaps() (names []string) {
	for _, component := range s.Components {
		for _, reference := range component.AdditionalObjects {
			if !slices.Contains(names, reference.Name) {
				names = append(names, reference.Name)
			}
		}
	}
	return names
}

// computes reports whether an expression of a variable has a result other than its value or a default.
func computes(text []byte, name string) bool {
	for expression := range variable.AllNested(text) {
		if _, isDefault := expression.Default(); expression.Name == name && expression.Operator != "" && !isDefault {
			return true
		}
	}
	return false
}
