// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// builtIn has the kinds whose lists a strategic merge patch merges.
var builtIn = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	builder := runtime.SchemeBuilder{
		appsv1.AddToScheme, corev1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		admissionregistrationv1.AddToScheme,
	}
	if err := builder.AddToScheme(scheme); err != nil {
		panic(err) // unreachable: the types are Kubernetes' own
	}
	return scheme
}()

// patch applies a patch to the objects of its target.
func (a *application) patch(path *field.Path, patch v1alpha1.Patch) {
	content, err := yaml.YAMLToJSONStrict([]byte(patch.Patch))
	if err != nil {
		a.errs = append(a.errs, field.Forbidden(path.Child("patch"), err.Error()))
		return
	}
	found := false
	for _, obj := range a.objects {
		if !selects(patch.Target, obj) {
			continue
		}
		found = true
		a.change(path, path, obj, func(obj *unstructured.Unstructured) error { return patchObject(obj, content) })
	}
	if !found {
		a.errs = append(a.errs, field.NotFound(path.Child("target"), a.describeTarget(patch.Target)))
	}
}

func selects(target v1alpha1.PatchTarget, obj *unstructured.Unstructured) bool {
	kind := object.GroupKind(obj)
	return kind.Group == target.Group && kind.Kind == target.Kind && (target.Name == "" || target.Name == obj.GetName())
}

// describeTarget describes a target that selects nothing, with the objects of its kind.
func (a *application) describeTarget(target v1alpha1.PatchTarget) string {
	var have []string
	for _, obj := range a.objects {
		if obj.GetKind() == target.Kind {
			kind := object.GroupKind(obj)
			have = append(have, fmt.Sprintf("%s of group %q", obj.GetName(), kind.Group))
		}
	}
	text := strings.TrimSpace(fmt.Sprintf("%s %s of group %q", target.Kind, target.Name, target.Group))
	if len(have) > 0 {
		text += "; the component has " + strings.Join(have, ", ")
	}
	return text
}

// patchObject applies a patch, in JSON, to an object.
func patchObject(obj *unstructured.Unstructured, patch []byte) error {
	before := object.IdentityOf(obj)
	patched, err := patched(obj, patch)
	if err != nil {
		return err
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(patched, &out.Object); err != nil {
		return err
	}
	if after := object.IdentityOf(out); after != before || out.GetAPIVersion() != obj.GetAPIVersion() {
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
	if patch[0] == '[' {
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		return operations.Apply(content)
	}
	if patch[0] != '{' {
		return nil, errors.New("want a mapping or a list of operations")
	}
	typed, err := builtIn.New(whole.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		return jsonpatch.MergePatch(content, patch)
	}
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(content, patch, typed)
}

// checkTypes returns an error for fields of a built-in kind that are unknown or have a wrong type.
func checkTypes(obj *unstructured.Unstructured) error {
	typed, err := builtIn.New(obj.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // the API server checks the objects of other kinds
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true)
}
