// SPDX-License-Identifier: Apache-2.0

// Package setting applies the settings of an administrator to components: the namespace, variables, feature gates, Deployments and patches.
// It is pure: settings and rendered objects in, changed objects out.
//
// Each error names its field in the spec of the ClusterAPI object. A setting never has no effect: one that names an unknown
// component, variable, feature gate or object is an error, and so are two settings of one field. Other entries of the spec must
// name something too.
package setting

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Settings are the settings of a cluster. The zero value has none.
type Settings struct {
	// Placement applies to the Deployments of all components; nil if there is none.
	Placement *v1alpha1.Placement
	// Components are the settings of single components.
	Components []v1alpha1.ComponentSettings
	// Partial is set if only some components of the cluster are rendered: settings of others are no error.
	Partial bool
	// Unselected explains why a component of the release is not selected, such as "is for platform Azure", by its name.
	Unselected map[string]string
	// Unused are errors of image overrides without effect.
	Unused field.ErrorList
	// Secrets are the values of the variables that refer to Secrets.
	Secrets Secrets
	// Values returns the values of a Secret by key, for previews; nil if they are unknown.
	Values func(secret string) map[string][]byte
	// Namespaces are the namespaces that components can have; nil allows any.
	Namespaces []string
}

// Of returns the settings in a spec.
func Of(spec v1alpha1.ClusterAPISpec) Settings {
	return Settings{Placement: spec.Placement, Components: slices.Clone(spec.Components)}
}

var componentsPath = field.NewPath("spec", "components")

// Check returns an error for each entry of the spec that names none of the given components.
func (s Settings) Check(components []string) (errs field.ErrorList) {
	if s.Partial {
		return nil
	}
	names := slices.Compact(slices.Sorted(slices.Values(components)))
	for i, settings := range s.Components {
		path, why := componentsPath.Index(i).Child("name"), s.Unselected[settings.Name]
		switch {
		case slices.Contains(names, settings.Name) && settings.VariablesFrom != nil:
			errs = append(errs, field.Invalid(componentsPath.Index(i).Child("variablesFrom"), settings.VariablesFrom.SecretRef.Name,
				"the Secret has no key with the name of a variable of the component that variables lacks"))
		case slices.Contains(names, settings.Name):
		case why != "":
			errs = append(errs, field.Invalid(path, settings.Name, why))
		default:
			errs = append(errs, field.NotSupported(path, settings.Name, names))
		}
	}
	return append(errs, s.Unused...)
}

// Unknown describes the entries of a spec that name nothing in the objects of a version: unmanaged CRDs, and objects and fields of the drift policy.
func Unknown(unmanaged []string, policy []v1alpha1.IgnoredFields, objects []*unstructured.Unstructured) (unknown []string) {
	var crds []string
	for _, obj := range objects {
		if object.IsCRD(obj) {
			crds = append(crds, obj.GetName())
		}
	}
	for _, name := range unmanaged {
		if slices.Contains(crds, name) {
			continue
		}
		entry := "spec.unmanagedCRDs: no component has CRD " + name
		if nearest := text.Nearest(name, crds); nearest != "" && !slices.Contains(unmanaged, nearest) {
			entry += " (did you mean " + nearest + "?)"
		}
		unknown = append(unknown, entry)
	}
	for i, entry := range policy {
		path := field.NewPath("spec", "driftPolicy", "ignoredFields").Index(i)
		named := slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool { return !entry.Matches(object.GroupKind(obj), obj.GetName()) })
		if len(named) == 0 {
			unknown = append(unknown, fmt.Sprintf("%s: no component has %s", path, entry.Target()))
			continue
		}
		for j, pointer := range entry.Fields {
			if !slices.ContainsFunc(named, func(obj *unstructured.Unstructured) bool { return hasField(obj, v1alpha1.Tokens(pointer)) }) {
				unknown = append(unknown, fmt.Sprintf("%s: %s has no field %s", path.Child("fields").Index(j), entry.Target(), pointer))
			}
		}
	}
	return unknown
}

// hasField reports whether the kind of an object has the field of a JSON pointer; the manifest need not set it. Kinds of CRDs can have any.
func hasField(obj *unstructured.Unstructured, tokens []string) bool {
	var value any
	for _, token := range slices.Backward(tokens) {
		if _, err := strconv.Atoi(token); err == nil {
			value = []any{value}
		} else {
			value = map[string]any{token: value}
		}
	}
	only := &unstructured.Unstructured{}
	only.Object, _ = value.(map[string]any)
	only.SetGroupVersionKind(obj.GroupVersionKind())
	return !runtime.IsStrictDecodingError(checkTypes(only))
}

// For returns the settings of a component.
func (s Settings) For(component string) Component {
	at := slices.IndexFunc(s.Components, func(c v1alpha1.ComponentSettings) bool { return c.Name == component })
	if at < 0 {
		return Component{placement: s.Placement}
	}
	return Component{placement: s.Placement, Own: &s.Components[at], path: componentsPath.Index(at), namespaces: s.Namespaces}
}

// Expand adds the variables of variablesFrom that manifests of the component use and the list lacks. An entry that gives none stays. The
// settings are changed.
func (c Component) Expand(manifests []byte, keys func(secret string) iter.Seq[string]) {
	if c.Own == nil || c.Own.VariablesFrom == nil {
		return
	}
	secret, used := c.Own.VariablesFrom.SecretRef.Name, variable.Names(manifests)
	for _, key := range slices.Sorted(keys(secret)) {
		if used[key] && !c.sets(key) {
			from := v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: secret, Key: key}}
			c.Own.Variables, c.Own.VariablesFrom = append(slices.Clip(c.Own.Variables), v1alpha1.Variable{Name: key, ValueFrom: &from}), nil
		}
	}
}

// Component are the settings of one component.
type Component struct {
	// Own are the component's own settings; nil if there are none.
	Own        *v1alpha1.ComponentSettings
	placement  *v1alpha1.Placement
	path       *field.Path
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
			errs = append(errs, field.Forbidden(c.path.Child("variables").Key(setting.Name), fmt.Sprintf("%s has the value of the cluster's configuration in OpenShift", setting.Name)))
		case setting.ValueFrom != nil && computes(text, setting.Name):
			errs = append(errs, field.Forbidden(c.path.Child("variables").Key(setting.Name), fmt.Sprintf("an expression in the manifests changes the value of %s, so it cannot come from a Secret", setting.Name)))
		case setting.ValueFrom != nil:
			values[setting.Name] = Placeholder(setting.ValueFrom.SecretKeyRef)
		case setting.Value != nil:
			values[setting.Name] = *setting.Value
		}
	}
	return values, errs
}

// References returns the Secrets that the settings refer to, each once, without versions. namespace is the operator's.
func (s Settings) References(namespace string) (inputs []v1alpha1.ObservedInput) {
	for _, key := range s.SecretKeys() {
		input := v1alpha1.ObservedInput{Kind: "Secret", Namespace: namespace, Name: key.Name}
		if !slices.Contains(inputs, input) {
			inputs = append(inputs, input)
		}
	}
	return inputs
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

// ParseSpec returns the spec of a ClusterAPI object, of a patch for one, or a document that is the spec itself. Unknown fields, other kinds
// and further documents are errors: they would have no effect.
func ParseSpec(content []byte) (spec v1alpha1.ClusterAPISpec, err error) {
	if documents := yamldoc.SplitNonEmpty(content); len(documents) > 1 {
		return spec, fmt.Errorf("line %d: further document: want one", documents[1].Line)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(content, &keys); err != nil {
		return spec, err
	}
	if keys["kind"] == nil && keys["spec"] == nil {
		return spec, inListForm(keys, yaml.UnmarshalStrict(content, &spec))
	}
	var cluster v1alpha1.ClusterAPI
	if err := yaml.UnmarshalStrict(content, &cluster); err != nil {
		return spec, inListForm(object.MapAt(keys, "spec"), err)
	}
	if got, want := cluster.GroupVersionKind(), v1alpha1.GroupVersion.WithKind("ClusterAPI"); !got.Empty() && got != want {
		return spec, fmt.Errorf("invalid kind %s %s: want %s %s", cluster.APIVersion, cluster.Kind, v1alpha1.GroupVersion, want.Kind)
	}
	return cluster.Spec, nil
}

// inListForm adds the right form to the error of a spec with settings in the form of cluster-api-operator: feature gates and arguments as maps,
// and the fields of its manager and deployment.
func inListForm(spec map[string]any, err error) error {
	if err == nil {
		return nil
	}
	var forms []error
	for i, component := range object.MapsAt(spec, "components") {
		path := componentsPath.Index(i)
		for _, known := range []struct{ path, form string }{
			{"featureGates", "{name: %v, enabled: %v}"}, {"manager.featureGates", "{name: %v, enabled: %v}"},
			{"deployment.args", `"--%v=%v"`}, {"args", `"--%v=%v"`}, {"env", "{name: %v, value: %q}"}, {"deployment.env", "{name: %v, value: %q}"},
		} {
			values := object.MapAt(component, strings.Split(known.path, ".")...)
			var items []string
			for _, name := range slices.Sorted(maps.Keys(values)) {
				items = append(items, fmt.Sprintf(known.form, name, values[name]))
			}
			right := map[string]string{"manager.featureGates": "featureGates", "args": "deployment.args", "env": "deployment.env"}[known.path]
			if items != nil {
				forms = append(forms, fmt.Errorf("%s.%s: want %s: [%s]", path, known.path, cmp.Or(right, known.path), strings.Join(items, ", ")))
			}
		}
	}
	if strict := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &v1alpha1.ClusterAPISpec{}, true); runtime.IsStrictDecodingError(strict) {
		err = strict // it has the path of an unknown field
	}
	return cmp.Or(errors.Join(forms...), err)
}
