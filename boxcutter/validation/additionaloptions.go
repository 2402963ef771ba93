// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package validation

// The names in this file are additions: the original module does not have them.

// WithFieldOwner returns a validator that makes dry runs as the given field owner,
// which should be that of the writes: the result depends on the fields that this
// field owner holds and no longer desires. Default: the field owner of the writer,
// or "boxcutter".
func (d *ObjectValidator) WithFieldOwner(name string) *ObjectValidator {
	named := *d
	named.fieldOwner = fieldOwner(name)
	return &named
}

// WithFieldOwner returns a validator that makes dry runs as the given field owner;
// see ObjectValidator.WithFieldOwner.
func (v *PhaseValidator) WithFieldOwner(fieldOwner string) *PhaseValidator {
	return &PhaseValidator{v.ObjectValidator.WithFieldOwner(fieldOwner)}
}
