// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// economy has the engine spare time and requests, if it can: up to as many objects
// of a phase are written, or removed, at the same time, and the API server is asked
// only about objects that are going to be written. The module that boxcutter stands
// in for can do neither, and takes it for no option at all: nothing here names what
// it lacks.
type economy int

// thrifty is the economy that the installer goes by.
const thrifty = economy(8)

// ApplyToPhaseReconcileOptions sets it for one phase.
func (e economy) ApplyToPhaseReconcileOptions(options *types.PhaseReconcileOptions) {
	e.set(options)
	if extended, can := any(options).(interface{ SetNoDryRunOfUnchanged(leaveOut bool) }); can {
		extended.SetNoDryRunOfUnchanged(true)
	}
}

// ApplyToRevisionReconcileOptions sets it for all phases.
func (e economy) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, e)
}

// ApplyToPhaseTeardownOptions sets it for one phase.
func (e economy) ApplyToPhaseTeardownOptions(options *types.PhaseTeardownOptions) {
	e.set(options)
}

// ApplyToRevisionTeardownOptions sets it for all phases.
func (e economy) ApplyToRevisionTeardownOptions(options *types.RevisionTeardownOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, e)
}

func (e economy) set(options any) {
	if extended, can := options.(interface{ SetConcurrency(limit int) }); can {
		extended.SetConcurrency(int(e))
	}
}
