// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package boxcutter

import (
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
)

// The names in this file are additions: the original module does not have them.

// WithConcurrency writes several objects of a phase at the same time.
var WithConcurrency = types.WithConcurrency

// WithoutDryRunOfUnchanged limits the dry run to the objects that are going to be written.
var WithoutDryRunOfUnchanged = types.WithoutDryRunOfUnchanged

// WithProgressDeadline sets the time by which a revision should be complete.
var WithProgressDeadline = types.WithProgressDeadline

// asFieldOwner returns a validator that makes dry runs as the field owner of the writes.
func asFieldOwner(validator *validation.PhaseValidator, fieldOwner string) *validation.PhaseValidator {
	return validator.WithFieldOwner(fieldOwner)
}
