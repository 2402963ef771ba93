// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/install/replacing"
	"github.com/capi-installer/capi-installer/internal/object"
)

// immutable has the immutable fields of kinds whose objects an administrator can delete, so that the installer creates them again. The
// installer does not delete them itself: meanwhile a provider does not run. Bindings are not among them: package replacing replaces them.
var immutable = map[schema.GroupKind][]string{
	object.Deployment:                    {"spec.selector"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec.selector"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "spec.selector"},
	{Group: "batch", Kind: "Job"}:        {"spec.selector", "spec.template", "spec.completionMode", "spec.completions"},
	{Kind: "Service"}:                    {"spec.clusterIP", "spec.clusterIPs[0]", "spec.clusterIPs"},
	{Kind: "ConfigMap"}:                  {"data", "binaryData", "immutable"},
	{Kind: "Secret"}:                     {"data", "type", "immutable"},
}

// IsImmutable reports whether the API server rejects nothing but immutable fields of an object of a kind.
func IsImmutable(kind schema.GroupKind, err error) bool {
	causes := causesOf(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause metav1.StatusCause) bool {
		return !slices.Contains(immutable[kind], cause.Field)
	})
}

// causesOf returns the fields that the API server rejects as invalid.
func causesOf(err error) []metav1.StatusCause {
	rejected, isStatus := errors.AsType[*apierrors.StatusError](err)
	if !isStatus || !apierrors.IsInvalid(err) || rejected.Status().Details == nil {
		return nil
	}
	return rejected.Status().Details.Causes
}

// rejection returns the message about an object that the API server rejects whenever the installer writes it; empty for other
// errors: permissions have a check of their own, and errors of webhooks and policies can depend on other objects of the release.
func rejection(desired *unstructured.Unstructured, err error) string {
	if len(causesOf(err)) == 0 || replacing.Replaces(desired, err) {
		return ""
	}
	message := object.Describe(desired) + ": " + err.Error()
	if IsImmutable(object.GroupKind(desired), err) {
		message += "; the field is immutable: delete the object, and the installer creates it again: " + Deletion(object.IdentityOf(desired))
	}
	return message
}

// Deletion returns the command that deletes an object.
func Deletion(o object.Identity) string {
	resource := strings.ToLower(o.Kind)
	if o.Group != "" {
		resource += "." + o.Group
	}
	if o.Namespace == "" {
		return "kubectl delete " + resource + " " + o.Name
	}
	return "kubectl delete " + resource + " " + o.Name + " -n " + o.Namespace
}

// Reserved reports whether an object of the installed version must not be created again, because the release has it with another
// immutable field: an administrator has deleted it, so that the release can create it.
func Reserved(installed, desired *unstructured.Unstructured) bool {
	for _, field := range immutable[object.GroupKind(desired)] {
		path := strings.Split(strings.TrimSuffix(field, "[0]"), ".")
		before, _, _ := unstructured.NestedFieldNoCopy(installed.Object, path...)
		after, _, _ := unstructured.NestedFieldNoCopy(desired.Object, path...)
		if !object.Equal(before, after) && changesImmutable(installed, field) {
			return true
		}
	}
	return false
}

// changesImmutable reports whether a field of an object cannot change. The data of ConfigMaps and Secrets can, unless they are marked.
func changesImmutable(installed *unstructured.Unstructured, field string) bool {
	switch object.GroupKind(installed) {
	case schema.GroupKind{Kind: "ConfigMap"}, schema.GroupKind{Kind: "Secret"}:
		return field == "type" || installed.Object["immutable"] == true
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return field == "spec.selector"
	}
	return true
}
