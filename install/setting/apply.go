// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/relocation"
)

// Apply changes the objects of a component, and returns the names of the settings that it has applied, such as
// "featureGates[ClusterTopology]". The settings do not conflict: an error reports each field that two of them set. marked are the objects with the values of Marked, from which the fields of variables are known. openShift is
// set for manifests that are made for OpenShift.
func (c Component) Apply(objects, marked []*unstructured.Unstructured, openShift bool) (names []string, errs field.ErrorList) {
	a := &application{objects: objects, setBy: c.setByVariables(marked)}
	if c.Own == nil {
		a.place(c.placement)
		return a.names, nil
	}
	a.move(c, openShift)
	a.place(c.placement)
	for _, setting := range c.Own.Variables { // Values has applied them
		a.names = append(a.names, c.path.Child("variables").Key(setting.Name).String())
	}
	a.switchFeatures(c.path.Child("featureGates"), c.Own.FeatureGates)
	a.deploy(c.path.Child("deployment"), c.Own.Deployment)
	for i, patch := range c.Own.Patches {
		a.patch(c.path.Child("patches").Index(i), patch)
	}
	a.unmoved(c.path.Child("namespace"))
	for _, name := range a.names {
		names = append(names, strings.TrimPrefix(name, c.path.String()+"."))
	}
	return names, a.errs
}

// application is a call of Apply.
type application struct {
	objects []*unstructured.Unstructured
	names   []string
	errs    field.ErrorList
	setBy   map[string]string // the setting of each changed field of an object

	relocation relocation.Relocation // to the namespace of the component
}

// change calls do for an object, and records the fields that it changes for a setting. name is a part of the setting, or the
// setting itself.
func (a *application) change(setting, name *field.Path, obj *unstructured.Unstructured, do func(*unstructured.Unstructured) error) {
	before := obj.DeepCopy()
	if err := do(obj); err != nil {
		a.errs = append(a.errs, field.Forbidden(setting, fmt.Sprintf("%s: %v", object.Describe(before), err)))
		return
	}
	for _, changed := range object.ChangedFields(byField(before), byField(obj)) {
		key := object.Describe(before) + " " + changed
		if by, found := a.setBy[key]; found && by != setting.String() {
			a.errs = append(a.errs, field.Forbidden(setting, fmt.Sprintf("%s also sets %s of %s", by, changed, object.Describe(before))))
		}
		a.setBy[key] = setting.String()
	}
	if !slices.Contains(a.names, name.String()) {
		a.names = append(a.names, name.String())
	}
}

// move moves the objects to the namespace of the component, with all references between them.
func (a *application) move(c Component, openShift bool) {
	path, to := c.path.Child("namespace"), c.Own.Namespace
	if to == "" {
		return
	}
	scopes := object.DefinedScopes(a.objects)
	from := relocation.Namespaces(a.objects, scopes)
	switch {
	case openShift:
		a.errs = append(a.errs, field.Forbidden(path, "in OpenShift all providers have one namespace"))
		return
	case c.namespaces != nil && !slices.Contains(c.namespaces, to):
		a.errs = append(a.errs, field.Invalid(path, to, fmt.Sprintf("the installer may use the namespaces %s; to add one, create it, let the installer write there with the rules of "+
			`"capi-manifests rbac --providers-namespace", and name it in the argument --providers-namespace of the installer`, strings.Join(c.namespaces, ", "))))
		return
	case len(from) == 0:
		a.errs = append(a.errs, field.Forbidden(path, "the component has no objects in a namespace"))
		return
	}
	a.names = append(a.names, path.String())
	a.relocation = relocation.New(slices.DeleteFunc(from, func(namespace string) bool { return namespace == to }), to)
	before := make([]*unstructured.Unstructured, len(a.objects))
	for i, obj := range a.objects {
		before[i] = obj.DeepCopy()
	}
	a.relocation.Move(a.objects, scopes)
	for i, obj := range a.objects {
		a.moved(path, before[i], obj)
	}
}

// moved reports the fields of an object that the move and a variable set, and keeps the fields of variables under the new name of the object.
func (a *application) moved(path *field.Path, before, after *unstructured.Unstructured) {
	prefix, changed := object.Describe(before)+" ", object.ChangedFields(byField(before), byField(after))
	for key, by := range a.setBy {
		name, found := strings.CutPrefix(key, prefix)
		if !found {
			continue
		}
		if slices.Contains(changed, name) {
			a.errs = append(a.errs, field.Forbidden(path, fmt.Sprintf("%s also sets %s of %s", by, name, object.Describe(before))))
		}
		delete(a.setBy, key)
		a.setBy[object.Describe(after)+" "+name] = by
	}
	for _, name := range changed {
		a.setBy[object.Describe(after)+" "+name] = path.String()
	}
}

// unmoved reports the texts with the name of the former namespace, after all other settings: the author of the manifests knows whether they
// refer to it.
func (a *application) unmoved(path *field.Path) {
	for _, obj := range a.objects {
		for _, text := range a.relocation.Unmoved(obj) {
			a.errs = append(a.errs, field.Forbidden(path, fmt.Sprintf("%s of %s contains the name of another namespace, %q, in a form that is not known; replace the text with a patch", text.Field, object.Describe(obj), text.Value)))
		}
	}
}
