// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package types

import "time"

// The options in this file, with the fields and methods behind them, are additions:
// the original module does not have them. The defaults are those of the original.
//
// The setters are for code that must also compile against the original. An option
// type of its own looks for them:
//
//	func (o concurrency) ApplyToPhaseReconcileOptions(opts *types.PhaseReconcileOptions) {
//		if extended, ok := any(opts).(interface{ SetConcurrency(limit int) }); ok {
//			extended.SetConcurrency(int(o))
//		}
//	}

// ConcurrencyOption is an option for reconciling and for tearing down.
type ConcurrencyOption interface {
	PhaseReconcileOption
	PhaseTeardownOption
}

type concurrencyOption struct {
	phaseReconcileOption
	phaseTeardownOption
}

// WithConcurrency sends the dry runs and writes of up to limit objects of a phase
// at the same time; below 2, which is the default, objects are handled one by one.
//
// Only consecutive objects of one kind are handled concurrently: the first object
// of another kind waits for all objects before it. Results are in the order of the
// objects. Unless errors are aggregated, the first error ends the phase: objects
// that were started are completed and part of the result, and no further object is
// started.
//
// Probes, an owner strategy and a sibling owner classifier are called from several
// goroutines at the same time.
func WithConcurrency(limit int) ConcurrencyOption {
	return &concurrencyOption{
		phaseReconcileOption: phaseReconcileOption{func(opts *PhaseReconcileOptions) { opts.SetConcurrency(limit) }},
		phaseTeardownOption:  phaseTeardownOption{func(opts *PhaseTeardownOptions) { opts.SetConcurrency(limit) }},
	}
}

// SetConcurrency is the setter of WithConcurrency.
func (pro *PhaseReconcileOptions) SetConcurrency(limit int) { pro.Concurrency = limit }

// SetConcurrency is the setter of WithConcurrency.
func (pto *PhaseTeardownOptions) SetConcurrency(limit int) { pto.Concurrency = limit }

// WithoutDryRunOfUnchanged limits the dry run to the objects of a phase that are
// going to be written. By default every object is checked at every reconcile. A
// revision that has converged then sends no request at all. A policy of the cluster
// that would now reject an unchanged object is noticed only at its next write.
func WithoutDryRunOfUnchanged() PhaseReconcileOption {
	return &phaseReconcileOption{func(opts *PhaseReconcileOptions) { opts.SetNoDryRunOfUnchanged(true) }}
}

// SetNoDryRunOfUnchanged is the setter of WithoutDryRunOfUnchanged.
func (pro *PhaseReconcileOptions) SetNoDryRunOfUnchanged(skip bool) {
	pro.NoDryRunOfUnchanged = skip
}

// WithProgressDeadline sets the time by which the revision should be complete. The
// result of a later reconcile that is not complete, and has not progressed to newer
// revisions, reports that the deadline is exceeded; see machinery.ProgressDeadline.
// The deadline does not end the rollout.
func WithProgressDeadline(deadline time.Time) RevisionReconcileOption {
	return &revisionReconcileOption{func(opts *RevisionReconcileOptions) { opts.SetProgressDeadline(deadline) }}
}

// SetProgressDeadline is the setter of WithProgressDeadline.
func (rropts *RevisionReconcileOptions) SetProgressDeadline(deadline time.Time) {
	rropts.ProgressDeadline = deadline
}
