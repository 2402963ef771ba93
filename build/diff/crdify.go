// SPDX-License-Identifier: Apache-2.0

package diff

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

// constraints are what is compared of a property. Nothing changes them.
var constraints = newConstraints()

// newConstraints returns what is compared of a property: what crdify validates, and what
// it has no validation for.
//
// crdify is asked property by property, with paths of our own: its own walk gives a
// property and the alternatives in its anyOf the same path, so that the last one hides
// the others, and its texts list names in no order.
func newConstraints() []constraint {
	return append([]constraint{
		{"type", func(s *schema) any { return textOrNil(s.Type) }, judgeBy(&property.Type{}, "type changed", "type changed", refusesOthers)},
		{"enum", enumOf, judgeBy(&property.Enum{EnumConfig: property.EnumConfig{AdditionPolicy: property.AdditionPolicyAllow}}, "fewer values are allowed", "more values are allowed", refusesOthers)},
		{"required", requiredOf, judgeRequired},
		{"default", func(s *schema) any { return valueOrNil(s.Default) }, judgeDefault},
		bound("maximum", &property.Maximum{}, func(s *schema) any { return pointed(s.Maximum) }),
		bound("minimum", &property.Minimum{}, func(s *schema) any { return pointed(s.Minimum) }),
		bound("maxLength", &property.MaxLength{}, func(s *schema) any { return pointed(s.MaxLength) }),
		bound("minLength", &property.MinLength{}, func(s *schema) any { return pointed(s.MinLength) }),
		bound("maxItems", &property.MaxItems{}, func(s *schema) any { return pointed(s.MaxItems) }),
		bound("minItems", &property.MinItems{}, func(s *schema) any { return pointed(s.MinItems) }),
		bound("maxProperties", &property.MaxProperties{}, func(s *schema) any { return pointed(s.MaxProperties) }),
		bound("minProperties", &property.MinProperties{}, func(s *schema) any { return pointed(s.MinProperties) }),
		{"description", func(s *schema) any { return textOrNil(s.Description) }, judgeText},
	}, ownConstraints()...)
}

// enforced makes what a validation finds incompatible an error.
func enforced(v validation) validation {
	v.SetEnforcement(config.EnforcementPolicyError)
	return v
}

// incompatible says whether a validation finds a change incompatible.
func incompatible(v validation, was, is *schema) bool {
	return len(v.Compare(was.DeepCopy(), is.DeepCopy()).Errors) > 0 // it empties what it is given
}

// judgeBy has crdify judge: what it finds incompatible breaks.
func judgeBy(v validation, worse, better, means string) func(was, is *schema) (Level, string, string) {
	v = enforced(v)
	return func(was, is *schema) (Level, string, string) {
		if incompatible(v, was, is) {
			return Breaking, worse, means
		}
		return Plain, better, ""
	}
}

func bound(name string, v validation, value func(*schema) any) constraint {
	return constraint{strings.ToLower(name), value, judgeBy(v, name+" is tighter", name+" is looser", refusesSome)}
}

func enumOf(s *schema) any {
	sorted := slices.SortedFunc(slices.Values(s.Enum), func(a, b apiextensionsv1.JSON) int { return bytes.Compare(a.Raw, b.Raw) })
	return valueOrNil(sorted)
}

func requiredOf(s *schema) any { return valueOrNil(slices.Sorted(slices.Values(s.Required))) }

// judgeRequired has crdify judge. A field that gets a default when it is left out is never missing.
func judgeRequired(was, is *schema) (Level, string, string) {
	if !incompatible(enforced(&property.Required{}), was, is) {
		return Plain, "fewer fields are required", ""
	}
	names := slices.DeleteFunc(slices.Clone(is.Required), func(name string) bool { return slices.Contains(was.Required, name) })
	slices.Sort(names)
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return is.Properties[name].Default != nil })
	if len(missing) == 0 {
		return Plain, strings.Join(names, ", ") + " is required", "Objects without it get its default."
	}
	return Breaking, strings.Join(missing, ", ") + " is required", "Objects without it stay readable; every write of one is refused, that of a controller too."
}

// judgeDefault has crdify judge. A default that is new changes nothing that was said before.
func judgeDefault(was, is *schema) (Level, string, string) {
	const means = "Objects that leave the field out have another value at the next read."
	switch {
	case !incompatible(enforced(&property.Default{}), was, is):
		return Plain, "written otherwise", ""
	case was.Default == nil:
		return Review, "a default is new", means
	case is.Default == nil:
		return Breaking, "the default is gone", "Objects made from now on that leave the field out have no value."
	}
	return Breaking, "the default changed", means
}
