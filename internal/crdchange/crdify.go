// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"bytes"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/validations"
	"sigs.k8s.io/crdify/pkg/validations/property"
)

// validation is a validation of crdify for a property.
type validation interface {
	validations.Validation
	validations.Comparator[schema]
}

// constraints are the compared constraints of a property. They are read-only.
var constraints = newConstraints()

// newConstraints returns the validations of crdify, and our own for the constraints
// that crdify does not validate.
//
// Each property is validated separately. crdify's walk over a schema gives a
// property and the alternatives in its anyOf the same path, so that the last one
// hides the others, and lists names in its messages in random order.
func newConstraints() []constraint {
	return append([]constraint{
		{"type", func(s *schema) any { return textOrNil(s.Type) }, classifyBy(&property.Type{}, "type changed", "type changed", rejectsOthers)},
		{"enum", enumOf, classifyBy(&property.Enum{EnumConfig: property.EnumConfig{AdditionPolicy: property.AdditionPolicyAllow}}, "fewer values are allowed", "more values are allowed", rejectsOthers)},
		{"required", requiredOf, classifyRequired},
		{"default", func(s *schema) any { return valueOrNil(s.Default) }, classifyDefault},
		bound("maximum", &property.Maximum{}, func(s *schema) any { return pointee(s.Maximum) }),
		bound("minimum", &property.Minimum{}, func(s *schema) any { return pointee(s.Minimum) }),
		bound("maxLength", &property.MaxLength{}, func(s *schema) any { return pointee(s.MaxLength) }),
		bound("minLength", &property.MinLength{}, func(s *schema) any { return pointee(s.MinLength) }),
		bound("maxItems", &property.MaxItems{}, func(s *schema) any { return pointee(s.MaxItems) }),
		bound("minItems", &property.MinItems{}, func(s *schema) any { return pointee(s.MinItems) }),
		bound("maxProperties", &property.MaxProperties{}, func(s *schema) any { return pointee(s.MaxProperties) }),
		bound("minProperties", &property.MinProperties{}, func(s *schema) any { return pointee(s.MinProperties) }),
		{"description", func(s *schema) any { return textOrNil(s.Description) }, classifyText},
	}, ownConstraints()...)
}

// enforced configures a validation to report incompatible changes as errors.
func enforced(v validation) validation {
	v.SetEnforcement(config.EnforcementPolicyError)
	return v
}

// incompatible reports whether a validation finds a change incompatible.
func incompatible(v validation, was, is *schema) bool {
	return len(v.Compare(was.DeepCopy(), is.DeepCopy()).Errors) > 0 // Compare modifies its arguments
}

// classifyBy classifies a change with a validation of crdify: an incompatible change is Breaking.
func classifyBy(v validation, worse, better, means string) func(was, is *schema) (Level, string, string) {
	v = enforced(v)
	return func(was, is *schema) (Level, string, string) {
		if incompatible(v, was, is) {
			return Breaking, worse, means
		}
		return Plain, better, ""
	}
}

func bound(name string, v validation, value func(*schema) any) constraint {
	return constraint{strings.ToLower(name), value, classifyBy(v, name+" is tighter", name+" is looser", rejectsSome)}
}

func enumOf(s *schema) any {
	sorted := slices.SortedFunc(slices.Values(s.Enum), func(a, b apiextensionsv1.JSON) int { return bytes.Compare(a.Raw, b.Raw) })
	return valueOrNil(sorted)
}

func requiredOf(s *schema) any { return valueOrNil(slices.Sorted(slices.Values(s.Required))) }

// classifyRequired classifies a change of the required fields. Fields with a default
// do not count, because they are never missing.
func classifyRequired(was, is *schema) (Level, string, string) {
	if !incompatible(enforced(&property.Required{}), was, is) {
		return Plain, "fewer fields are required", ""
	}
	names := slices.DeleteFunc(slices.Clone(is.Required), func(name string) bool { return slices.Contains(was.Required, name) })
	slices.Sort(names)
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return is.Properties[name].Default != nil })
	if len(missing) == 0 {
		return Plain, strings.Join(names, ", ") + " is required", "Objects without it get its default."
	}
	return Breaking, strings.Join(missing, ", ") + " is required", "Existing objects without it stay readable, but every write is rejected, including writes of controllers."
}

// classifyDefault classifies a change of the default.
func classifyDefault(was, is *schema) (Level, string, string) {
	const means = "Objects without the field have another value at the next read."
	switch {
	case !incompatible(enforced(&property.Default{}), was, is):
		return Plain, "rewritten without semantic change", ""
	case was.Default == nil:
		return Review, "default added", means
	case is.Default == nil:
		return Breaking, "default removed", "New objects without the field have no value."
	}
	return Breaking, "default changed", means
}
