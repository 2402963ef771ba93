// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldsEqualProbe compares two fields of an object. The result is False if one of
// them is missing; a field that is null exists.
type FieldsEqualProbe struct {
	// FieldA and FieldB are paths of field names separated by dots, such as
	// ".spec.replicas". Leading and trailing dots are ignored.
	FieldA, FieldB string
}

// Probe reports whether the two fields are semantically equal.
func (fe *FieldsEqualProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		a, err := lookUp(fields, fe.FieldA)
		if err != nil {
			return FalseResult(err.Error())
		}
		b, err := lookUp(fields, fe.FieldB)
		if err != nil {
			return FalseResult(err.Error())
		}
		if equality.Semantic.DeepEqual(a, b) {
			return TrueResult(fmt.Sprintf("%q equals %q", fe.FieldA, fe.FieldB))
		}
		return FalseResult(fmt.Sprintf("%q is %v, %q is %v, want equal values", fe.FieldA, a, fe.FieldB, b))
	})
}

// FieldValueProbe compares a string field of an object with a value. The result is
// False if the field is missing or not a string.
type FieldValueProbe struct {
	// FieldPath is a path of field names separated by dots, such as
	// ".status.phase". Leading and trailing dots are ignored.
	FieldPath string
	// Value is the desired value.
	Value string
}

// Probe reports whether the field has the value.
func (fv *FieldValueProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		value, err := lookUp(fields, fv.FieldPath)
		if err != nil {
			return FalseResult(err.Error())
		}
		if value != any(fv.Value) {
			return FalseResult(fmt.Sprintf("%q is %#v, want %q", fv.FieldPath, value, fv.Value))
		}
		return TrueResult(fmt.Sprintf("%q is %q", fv.FieldPath, fv.Value))
	})
}

// lookUp returns the field at a path.
func lookUp(fields map[string]any, path string) (any, error) {
	value, found, err := unstructured.NestedFieldNoCopy(fields, strings.Split(strings.Trim(path, "."), ".")...)
	if err != nil {
		return nil, fmt.Errorf("reading field %q: %w", path, err)
	}
	if !found {
		return nil, fmt.Errorf("field %q not found", path)
	}
	return value, nil
}
