// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package boxcutter

import (
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
)

// The names in this file are not part of the original module.

// WithConcurrency handles several objects of a phase concurrently.
var WithConcurrency = types.WithConcurrency

// WithoutDryRunOfUnchanged makes only dry runs whose result is needed.
var WithoutDryRunOfUnchanged = types.WithoutDryRunOfUnchanged

// WithUnchangedSince tells which objects an older revision has too.
var WithUnchangedSince = types.WithUnchangedSince

// WithProgressDeadline sets the deadline for completing a revision.
var WithProgressDeadline = types.WithProgressDeadline

// asFieldOwner returns a validator that makes dry runs with the field owner of the
// writes.
func asFieldOwner(validator *validation.PhaseValidator, fieldOwner string) *validation.PhaseValidator {
	return validator.WithFieldOwner(fieldOwner)
}
