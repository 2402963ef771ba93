// SPDX-License-Identifier: Apache-2.0

//go:build boxcutter_compat

package boxcutter

import "pkg.package-operator.run/boxcutter/validation"

// asFieldOwner returns the validator unchanged: in the original, dry runs have a
// separate field owner.
func asFieldOwner(validator *validation.PhaseValidator, _ string) *validation.PhaseValidator {
	return validator
}
