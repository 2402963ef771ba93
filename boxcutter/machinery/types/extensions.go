// SPDX-License-Identifier: Apache-2.0

package types

// The options in this file, with the fields and methods behind them, are additions:
// the original module does not have them. Without them everything is done as there,
// but for the dry-run of objects that are as they should be, which is left out
// unless WithDryRunOfUnchanged asks for it.
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

// WithDryRunOfUnchanged has the API server asked about every object of a phase at
// every step, as the original does, and not only about those that are going to be
// written. It is for clusters whose admission may refuse today what it took
// yesterday, and costs a request for each object at each step.
//
// Objects that await a namespace or a kind of the same phase are still not asked
// about before that is there.
func WithDryRunOfUnchanged() PhaseReconcileOption {
	return phaseReconcileOption(func(opts *PhaseReconcileOptions) { opts.SetDryRunUnchanged(true) })
}

// SetDryRunUnchanged does what WithDryRunOfUnchanged does.
func (pro *PhaseReconcileOptions) SetDryRunUnchanged(ask bool) { pro.DryRunUnchanged = ask }

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
