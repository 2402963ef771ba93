// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package types

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The options in this file, and their fields and methods, are not part of the
// original module. The defaults behave like the original.
//
// The setters are for code that must also compile against the original: it defines its
// own option type that checks for the setter:
//
//	func (o concurrency) ApplyToPhaseReconcileOptions(opts *types.PhaseReconcileOptions) {
//		if extended, ok := any(opts).(interface{ SetConcurrency(limit int) }); ok {
//			extended.SetConcurrency(int(o))
//		}
//	}

// ConcurrencyOption is an option for both Reconcile and Teardown.
type ConcurrencyOption interface {
	PhaseReconcileOption
	PhaseTeardownOption
}

type concurrencyOption struct {
	phaseReconcileOption
	phaseTeardownOption
}

// WithConcurrency handles up to limit objects of a phase concurrently, both dry
// runs and writes. Below 2, the default, objects are handled one by one.
//
// Only consecutive objects of the same kind are handled concurrently: an object of
// another kind waits for all objects before it. Results are in the order of the
// objects. Unless errors are aggregated, no further object is started after the
// first error; the objects that were already started are completed and part of the
// result.
//
// Probes, owner strategies and sibling owner classifiers must be safe for
// concurrent use.
func WithConcurrency(limit int) ConcurrencyOption {
	return &concurrencyOption{
		phaseReconcileOption: phaseReconcileOption{func(opts *PhaseReconcileOptions) { opts.SetConcurrency(limit) }},
		phaseTeardownOption:  phaseTeardownOption{func(opts *PhaseTeardownOptions) { opts.SetConcurrency(limit) }},
	}
}

// SetConcurrency implements WithConcurrency.
func (pro *PhaseReconcileOptions) SetConcurrency(limit int) { pro.Concurrency = limit }

// SetConcurrency implements WithConcurrency.
func (pto *PhaseTeardownOptions) SetConcurrency(limit int) { pto.Concurrency = limit }

// WithoutDryRunOfUnchanged makes only dry runs whose result is needed. By default, every
// reconcile makes a dry run of every object. With this option, these have none:
//
//   - objects that are not going to be written, so that a converged revision sends no
//     requests. An admission policy that would now reject an unchanged object is noticed
//     only at the next write of the object.
//   - objects that pass from an older revision to a newer one with the same content: only
//     their marks are written.
//   - the first write of a phase. It follows the dry runs of all other objects, so that
//     nothing is written if it is rejected.
//
// If a write without a dry run is rejected, the result is a validation error, as after a
// dry run.
func WithoutDryRunOfUnchanged() PhaseReconcileOption {
	return &phaseReconcileOption{func(opts *PhaseReconcileOptions) { opts.SetNoDryRunOfUnchanged(true) }}
}

// SetNoDryRunOfUnchanged implements WithoutDryRunOfUnchanged.
func (pro *PhaseReconcileOptions) SetNoDryRunOfUnchanged(skip bool) {
	pro.NoDryRunOfUnchanged = skip
}

// WithUnchangedSince tells which objects an older revision has too. When such an object
// passes to the newer revision, only its marks are written.
//
// Without the option, the engine finds that out from the owners of the fields. It cannot
// for an object that it has created and not written since: defaults of the API server then
// count as fields of the older revision that the newer one drops, so the engine makes a dry
// run and migrates the managed fields before it writes.
//
// The function gets the object of the newer revision, and the number in the annotation of
// the object in the cluster. It must be safe for concurrent use.
func WithUnchangedSince(unchanged func(obj client.Object, revision int64) bool) ObjectReconcileOption {
	return &objectReconcileOption{func(opts *ObjectReconcileOptions) { opts.SetUnchangedSince(unchanged) }}
}

// SetUnchangedSince implements WithUnchangedSince.
func (opts *ObjectReconcileOptions) SetUnchangedSince(unchanged func(obj client.Object, revision int64) bool) {
	opts.UnchangedSince = unchanged
}

// WithProgressDeadline sets the deadline for completing the revision. After it,
// the result reports that the deadline is exceeded, unless the revision is
// complete or has progressed to newer revisions; see machinery.ProgressDeadline.
// The rollout continues after the deadline.
func WithProgressDeadline(deadline time.Time) RevisionReconcileOption {
	return &revisionReconcileOption{func(opts *RevisionReconcileOptions) { opts.SetProgressDeadline(deadline) }}
}

// SetProgressDeadline implements WithProgressDeadline.
func (rropts *RevisionReconcileOptions) SetProgressDeadline(deadline time.Time) {
	rropts.ProgressDeadline = deadline
}
