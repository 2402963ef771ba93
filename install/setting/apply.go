// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/relocation"
)

// patch is the form of a setting: feature gates and the settings of Deployments are shorthands for patches.
type patch struct {
	// setting is the field of the ClusterAPI object.
	setting *field.Path
	targets []*unstructured.Unstructured
	apply   func(*unstructured.Unstructured) error
}

// Apply changes the objects of a component, and returns the names of the settings that it has applied, such as
// "featureGates[ClusterTopology]". The settings do not conflict: an error reports each field that two of them set. marked are the objects with the values of Marked, from which the fields of variables are known. openShift is
// set for manifests that are made for OpenShift.
func (c Component) Apply(objects, marked []*unstructured.Unstructured, openShift bool) (names []string, errs field.ErrorList) {
	if all := deploymentsOf(objects); c.placement != nil && len(all) > 0 {
		names = append(names, "placement")
		for _, obj := range all { // settings of the component take precedence, so the fields are not recorded
			merge(object.EnsureMap(obj.Object, "spec", "template"), "spec", plain(c.placement))
		}
	}
	if c.Own == nil {
		return names, nil
	}
	a := &application{setBy: c.setByVariables(objects, marked)}
	settings := []*field.Path{}
	relocated, moved := a.move(c, objects, openShift)
	if moved {
		settings = append(settings, c.path.Child("namespace"))
	}
	for _, setting := range c.Own.Variables { // Values has applied them
		settings = append(settings, c.path.Child("variables").Key(setting.Name))
	}
	for _, patch := range a.patches(c, objects) {
		settings = append(settings, patch.setting)
		for _, obj := range patch.targets {
			before := obj.DeepCopy()
			if err := patch.apply(obj); err != nil {
				a.errs = append(a.errs, field.Forbidden(patch.setting, fmt.Sprintf("%s: %v", object.Describe(before), err)))
				continue
			}
			a.record(patch.setting, before, obj)
		}
	}
	for _, obj := range objects { // after all other settings: the author of the manifests knows whether a text refers to a namespace
		for _, text := range relocated.Unmoved(obj) {
			a.errs = append(a.errs, field.Forbidden(c.path.Child("namespace"), fmt.Sprintf("%s of %s contains the name of another namespace, %q, in a form that is not known; replace the text with a patch", text.Field, object.Describe(obj), text.Value)))
		}
	}
	for _, setting := range settings {
		names = append(names, strings.TrimPrefix(setting.String(), c.path.String()+"."))
	}
	return names, a.errs
}

// application is a call of Apply.
type application struct {
	errs  field.ErrorList
	setBy map[*unstructured.Unstructured]map[string]string // the setting of each changed field of an object
}

// record records the fields of an object that a setting has changed, and reports the fields that another one has set.
func (a *application) record(setting *field.Path, before, after *unstructured.Unstructured) {
	for _, changed := range object.ChangedFields(byField(before), byField(after)) {
		if by := a.setBy[after][changed]; by != "" {
			a.errs = append(a.errs, field.Forbidden(setting, fmt.Sprintf("%s also sets %s of %s", by, changed, object.Describe(before))))
		}
		if a.setBy[after] == nil {
			a.setBy[after] = map[string]string{}
		}
		a.setBy[after][changed] = setting.String()
	}
}

// patches returns the settings of a component as patches, in the order in which they are applied.
func (a *application) patches(c Component, objects []*unstructured.Unstructured) []patch {
	gates, errGates := featurePatches(c.path.Child("featureGates"), c.Own.FeatureGates, objects)
	deployments, errDeployments := deploymentPatches(c.path.Child("deployment"), c.Own.Deployment, objects)
	patches := slices.Concat(gates, deployments)
	a.errs = slices.Concat(a.errs, errGates, errDeployments)
	for i, own := range c.Own.Patches {
		path := c.path.Child("patches").Index(i)
		content, err := yaml.YAMLToJSONStrict([]byte(own.Patch))
		if err != nil {
			a.errs = append(a.errs, field.Forbidden(path.Child("patch"), err.Error()))
			continue
		}
		targets := slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool { return !selects(own.Target, obj) })
		if len(targets) == 0 {
			a.errs = append(a.errs, field.NotFound(path.Child("target"), describeTarget(own.Target, objects)))
		}
		patches = append(patches, patch{path, targets, func(obj *unstructured.Unstructured) error { return patchObject(obj, content) }})
	}
	return patches
}

// move moves the objects to the namespace of the component, with all references between them. It reports whether the settings have a namespace
// that the component can have.
func (a *application) move(c Component, objects []*unstructured.Unstructured, openShift bool) (relocated relocation.Relocation, moved bool) {
	path, to := c.path.Child("namespace"), c.Own.Namespace
	if to == "" {
		return relocated, false
	}
	scopes := object.DefinedScopes(objects)
	from := relocation.Namespaces(objects, scopes)
	switch {
	case openShift:
		a.errs = append(a.errs, field.Forbidden(path, "in OpenShift all providers have one namespace"))
		return relocated, false
	case c.namespaces != nil && !slices.Contains(c.namespaces, to):
		a.errs = append(a.errs, field.Invalid(path, to, fmt.Sprintf("the installer may use the namespaces %s; to add one, create it, let the installer write there with the rules of "+
			`"capi-manifests rbac --providers-namespace", and name it in the argument --providers-namespace of the installer`, strings.Join(c.namespaces, ", "))))
		return relocated, false
	case len(from) == 0:
		a.errs = append(a.errs, field.Forbidden(path, "the component has no objects in a namespace"))
		return relocated, false
	}
	relocated = relocation.New(slices.DeleteFunc(from, func(namespace string) bool { return namespace == to }), to)
	before := make([]*unstructured.Unstructured, len(objects))
	for i, obj := range objects {
		before[i] = obj.DeepCopy()
	}
	relocated.Move(objects, scopes)
	for i, obj := range objects {
		a.record(path, before[i], obj)
	}
	return relocated, true
}

func selects(target v1alpha1.PatchTarget, obj *unstructured.Unstructured) bool {
	kind := object.GroupKind(obj)
	return kind.Group == target.Group && kind.Kind == target.Kind && (target.Name == "" || target.Name == obj.GetName())
}

// describeTarget describes a target that selects nothing, with the objects of its kind.
func describeTarget(target v1alpha1.PatchTarget, objects []*unstructured.Unstructured) string {
	var have []string
	for _, obj := range objects {
		if obj.GetKind() == target.Kind {
			have = append(have, fmt.Sprintf("%s of group %q", obj.GetName(), object.GroupKind(obj).Group))
		}
	}
	text := fmt.Sprintf("%s of group %q", strings.TrimSpace(target.Kind+" "+target.Name), target.Group)
	if len(have) > 0 {
		text += "; the component has " + strings.Join(have, ", ")
	}
	return text
}

// patchObject applies a patch, in JSON, to an object.
func patchObject(obj *unstructured.Unstructured, patch []byte) error {
	patched, err := patched(obj, patch)
	if err != nil {
		return err
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(patched, &out.Object); err != nil {
		return err
	}
	if object.IdentityOf(out) != object.IdentityOf(obj) || out.GetAPIVersion() != obj.GetAPIVersion() {
		return errors.New("a patch cannot change the apiVersion, kind, name or namespace of an object")
	}
	if err := checkTypes(out); err != nil && checkTypes(obj) == nil {
		return err
	}
	obj.Object = out.Object
	return nil
}

// patched returns the JSON of an object with a patch.
func patched(whole *unstructured.Unstructured, patch []byte) ([]byte, error) {
	content, err := json.Marshal(whole.Object)
	if err != nil {
		return nil, err
	}
	switch patch[0] {
	case '[':
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		return operations.Apply(content)
	case '{':
		typed, err := scheme.Scheme.New(whole.GroupVersionKind())
		if err != nil { // a kind of a CRD
			return jsonpatch.MergePatch(content, patch)
		}
		return strategicpatch.StrategicMergePatch(content, patch, typed)
	}
	return nil, errors.New("want a mapping or a list of operations")
}

// checkTypes returns an error for fields of a built-in kind that are unknown or have a wrong type.
func checkTypes(obj *unstructured.Unstructured) error {
	typed, err := scheme.Scheme.New(obj.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // the API server checks the objects of other kinds
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true)
}
