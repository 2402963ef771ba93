// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
)

// checkIdentity returns an error for each missing or invalid field of the identity of
// an object.
func checkIdentity(obj *unstructured.Unstructured, defined object.Scopes) (errs []error) {
	if errs := checkStrings(obj); errs != nil {
		return errs
	}
	if obj.GetAPIVersion() == "" {
		errs = append(errs, errors.New("apiVersion is missing"))
	} else if _, err := schema.ParseGroupVersion(obj.GetAPIVersion()); err != nil {
		errs = append(errs, fmt.Errorf("apiVersion: %w", err))
	}
	if obj.GetKind() == "" {
		errs = append(errs, errors.New("kind is missing"))
	}
	switch {
	case obj.GetName() != "":
	case obj.GetGenerateName() != "":
		errs = append(errs, errors.New("metadata.generateName is not supported, because each apply would create another object; use metadata.name"))
	default:
		errs = append(errs, errors.New("metadata.name is missing"))
	}
	if err := checkNamespace(obj, defined); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// checkStrings returns an error for each field of an object's identity that is not
// a string. For example, YAML 1.1 reads an unquoted n as a boolean.
func checkStrings(obj *unstructured.Unstructured) (errs []error) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			return append(errs, err)
		}
		if _, isString := value.(string); found && !isString {
			errs = append(errs, fmt.Errorf("%s: invalid value %v: want a string; put it in quotes", strings.Join(path, "."), value))
		}
	}
	return errs
}

func checkNamespace(obj *unstructured.Unstructured, defined object.Scopes) error {
	if obj.GetNamespace() == "" && defined.Of(object.GroupKind(obj)) == object.ScopeNamespaced {
		return errors.New("metadata.namespace is missing: want the namespace of the providers")
	}
	return nil
}

// dropNamespace removes the namespace of a cluster-scoped object. kustomize sets it
// on kinds that it does not know. The API server ignores it, but reading the object
// with that namespace fails.
func dropNamespace(obj *unstructured.Unstructured, defined object.Scopes) {
	if defined.Of(object.GroupKind(obj)) == object.ScopeCluster {
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	}
}
