// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// concurrently has up to as many objects of a phase written, or removed, at the
// same time, if the engine can do that. The module that boxcutter stands in for
// cannot, and takes it for no option at all: nothing here names what it lacks.
type concurrently int

// atOnce is how many objects of one kind are written at the same time.
const atOnce = concurrently(8)

// ApplyToPhaseReconcileOptions sets the bound for one phase.
func (c concurrently) ApplyToPhaseReconcileOptions(options *types.PhaseReconcileOptions) {
	c.set(options)
}

// ApplyToRevisionReconcileOptions sets the bound for all phases.
func (c concurrently) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, c)
}

// ApplyToPhaseTeardownOptions sets the bound for one phase.
func (c concurrently) ApplyToPhaseTeardownOptions(options *types.PhaseTeardownOptions) {
	c.set(options)
}

// ApplyToRevisionTeardownOptions sets the bound for all phases.
func (c concurrently) ApplyToRevisionTeardownOptions(options *types.RevisionTeardownOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, c)
}

func (c concurrently) set(options any) {
	if extended, can := options.(interface{ SetConcurrency(limit int) }); can {
		extended.SetConcurrency(int(c))
	}
}
