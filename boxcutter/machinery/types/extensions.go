// SPDX-License-Identifier: Apache-2.0

package types

// The options in this file, with the fields and methods behind them, are additions:
// the original module does not have them. Without them everything is done as there.
//
// The methods are for code that is to compile against the original as well, where
// an option of its own can look for them:
//
//	func (o concurrently) ApplyToPhaseReconcileOptions(opts *types.PhaseReconcileOptions) {
//		if extended, ok := any(opts).(interface{ SetConcurrency(limit int) }); ok {
//			extended.SetConcurrency(o.limit)
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

// WithConcurrency has up to limit objects of a phase written at the same time, and
// as many dry-runs made; below 2 it is one after the other, which is the default.
//
// Only neighbours of the same kind are written at the same time: the first object
// of another kind waits until all before it are done. Results are in the order of
// the objects. Unless errors are aggregated, the first error still ends the phase:
// what was begun by then is finished and is part of the result, and nothing more is
// begun.
//
// Probes, an owner strategy and a sibling owner classifier are then called from
// several goroutines at the same time.
func WithConcurrency(limit int) ConcurrencyOption {
	return concurrencyOption{
		phaseReconcileOption: func(opts *PhaseReconcileOptions) { opts.SetConcurrency(limit) },
		phaseTeardownOption:  func(opts *PhaseTeardownOptions) { opts.SetConcurrency(limit) },
	}
}

// SetConcurrency does what WithConcurrency does.
func (pro *PhaseReconcileOptions) SetConcurrency(limit int) { pro.Concurrency = limit }

// SetConcurrency does what WithConcurrency does.
func (pto *PhaseTeardownOptions) SetConcurrency(limit int) { pto.Concurrency = limit }

// WithoutDryRunOfUnchanged has the API server asked only about the objects of a
// phase that are going to be written, where it is otherwise asked about every one
// at every step. A revision that has converged then costs no request at all. That
// the cluster's admission would refuse today what it took yesterday is then
// noticed only when the object has to be written again.
func WithoutDryRunOfUnchanged() PhaseReconcileOption {
	return phaseReconcileOption(func(opts *PhaseReconcileOptions) { opts.SetNoDryRunOfUnchanged(true) })
}

// SetNoDryRunOfUnchanged does what WithoutDryRunOfUnchanged does.
func (pro *PhaseReconcileOptions) SetNoDryRunOfUnchanged(leaveOut bool) {
	pro.NoDryRunOfUnchanged = leaveOut
}

// WithKeepUsedCRDs leaves a CustomResourceDefinition of which there are objects in
// place at teardown, as WithOrphan would: to delete it would delete them all.
// Objects of other kinds are torn down as ever.
//
// Whether there are any is asked right before the deletion, for one object, through
// the engine's UnfilteredReader, without which this option is misuse. When that
// cannot be told, the teardown fails and nothing is deleted. Only an object that
// comes into being between the answer and the deletion, which follow each other
// directly, can still be lost.
func WithKeepUsedCRDs() ObjectTeardownOption {
	return objectTeardownOption(func(opts *ObjectTeardownOptions) { opts.SetKeepUsedCRDs(true) })
}

// SetKeepUsedCRDs does what WithKeepUsedCRDs does.
func (opts *ObjectTeardownOptions) SetKeepUsedCRDs(keep bool) { opts.KeepUsedCRDs = keep }
