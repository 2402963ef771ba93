// SPDX-License-Identifier: Apache-2.0

//go:build boxcutter_compat

package boxcutter

import "pkg.package-operator.run/boxcutter/validation"

// asFieldOwner returns the validator, whose dry runs have a field owner of their own.
func asFieldOwner(validator *validation.PhaseValidator, _ string) *validation.PhaseValidator {
	return validator
}
