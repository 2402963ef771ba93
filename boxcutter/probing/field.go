// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldsEqualProbe compares two fields of an object. It is False when one of
// them is not there.
type FieldsEqualProbe struct {
	// FieldA and FieldB are paths of field names separated by dots, such as
	// ".spec.replicas". The first dot may be left out.
	FieldA, FieldB string
}

// Probe answers whether the two fields mean the same.
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
		return FalseResult(fmt.Sprintf("%q is %v, %q is %v, want them equal", fe.FieldA, a, fe.FieldB, b))
	})
}

// FieldValueProbe compares a field of an object with a value. It is False when
// the field is not there.
type FieldValueProbe struct {
	// FieldPath is a path of field names separated by dots, such as
	// ".status.phase". The first dot may be left out.
	FieldPath string
	// Value is the text that the field must be. Numbers and booleans are
	// compared as they are written.
	Value string
}

// Probe answers whether the field has the value.
func (fv *FieldValueProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		value, err := lookUp(fields, fv.FieldPath)
		if err != nil {
			return FalseResult(err.Error())
		}
		if text := fmt.Sprint(value); text != fv.Value {
			return FalseResult(fmt.Sprintf("%q is %q, want %q", fv.FieldPath, text, fv.Value))
		}
		return TrueResult(fmt.Sprintf("%q is %q", fv.FieldPath, fv.Value))
	})
}

// lookUp finds a field by its path. A field that is null is missing.
func lookUp(fields map[string]any, path string) (any, error) {
	names := strings.Split(strings.TrimPrefix(path, "."), ".")
	value, found, err := unstructured.NestedFieldNoCopy(fields, names...)
	if err != nil {
		return nil, fmt.Errorf("looking up %q: %w", path, err)
	}
	if !found || value == nil {
		return nil, fmt.Errorf("field %q is missing", path)
	}
	return value, nil
}
