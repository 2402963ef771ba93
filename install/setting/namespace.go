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
