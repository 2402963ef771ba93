// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package validation

// The names in this file are not part of the original module.

// WithFieldOwner returns a validator that makes dry runs with the given field
// owner. It should be the field owner of the writes, because the result depends on
// the fields that it owns and no longer applies. Default: the field owner of the
// writer, or "boxcutter".
func (d *ObjectValidator) WithFieldOwner(name string) *ObjectValidator {
	named := *d
	named.fieldOwner = fieldOwner(name)
	return &named
}

// WithFieldOwner returns a validator that makes dry runs with the given field
// owner; see ObjectValidator.WithFieldOwner.
func (v *PhaseValidator) WithFieldOwner(fieldOwner string) *PhaseValidator {
	return &PhaseValidator{v.ObjectValidator.WithFieldOwner(fieldOwner)}
}
