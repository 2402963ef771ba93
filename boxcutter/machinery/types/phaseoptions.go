// SPDX-License-Identifier: Apache-2.0

package types

import "sigs.k8s.io/controller-runtime/pkg/client"

// phaseReconcileOption lifts a change of phase options to revisions.
type phaseReconcileOption func(opts *PhaseReconcileOptions)

func (fn phaseReconcileOption) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	fn(opts)
}

func (fn phaseReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, fn)
}

// phaseTeardownOption lifts a change of phase options to revisions.
type phaseTeardownOption func(opts *PhaseTeardownOptions)

func (fn phaseTeardownOption) ApplyToPhaseTeardownOptions(opts *PhaseTeardownOptions) {
	fn(opts)
}

func (fn phaseTeardownOption) ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, fn)
}

// WithAggregatePhaseReconcileErrors has all objects of a phase tried and their
// errors joined. Only "too many requests" still stops at once.
func WithAggregatePhaseReconcileErrors() PhaseReconcileOption {
	return phaseReconcileOption(func(opts *PhaseReconcileOptions) { opts.AggregateErrors = true })
}

// WithAggregatePhaseTeardownErrors has all objects of a phase tried and their
// errors joined. Only "too many requests" still stops at once.
func WithAggregatePhaseTeardownErrors() PhaseTeardownOption {
	return phaseTeardownOption(func(opts *PhaseTeardownOptions) { opts.AggregateErrors = true })
}

// WithObjectReconcileOptions sets options for one object, known by its kind,
// namespace and name.
func WithObjectReconcileOptions(obj client.Object, opts ...ObjectReconcileOption) PhaseReconcileOption {
	ref := ToObjectRef(obj)
	return phaseReconcileOption(func(phase *PhaseReconcileOptions) {
		if phase.ObjectOptions == nil {
			phase.ObjectOptions = map[ObjectRef][]ObjectReconcileOption{}
		}
		phase.ObjectOptions[ref] = append(phase.ObjectOptions[ref], opts...)
	})
}

// WithObjectTeardownOptions sets options for one object, known by its kind,
// namespace and name.
func WithObjectTeardownOptions(obj client.Object, opts ...ObjectTeardownOption) PhaseTeardownOption {
	ref := ToObjectRef(obj)
	return phaseTeardownOption(func(phase *PhaseTeardownOptions) {
		if phase.ObjectOptions == nil {
			phase.ObjectOptions = map[ObjectRef][]ObjectTeardownOption{}
		}
		phase.ObjectOptions[ref] = append(phase.ObjectOptions[ref], opts...)
	})
}

type revisionReconcileOption func(opts *RevisionReconcileOptions)

func (fn revisionReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	fn(opts)
}

type revisionTeardownOption func(opts *RevisionTeardownOptions)

func (fn revisionTeardownOption) ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions) {
	fn(opts)
}

// WithPhaseReconcileOptions sets options for the phase of that name.
func WithPhaseReconcileOptions(phaseName string, opts ...PhaseReconcileOption) RevisionReconcileOption {
	return revisionReconcileOption(func(revision *RevisionReconcileOptions) {
		if revision.PhaseOptions == nil {
			revision.PhaseOptions = map[string][]PhaseReconcileOption{}
		}
		revision.PhaseOptions[phaseName] = append(revision.PhaseOptions[phaseName], opts...)
	})
}

// WithPhaseTeardownOptions sets options for the phase of that name.
func WithPhaseTeardownOptions(phaseName string, opts ...PhaseTeardownOption) RevisionTeardownOption {
	return revisionTeardownOption(func(revision *RevisionTeardownOptions) {
		if revision.PhaseOptions == nil {
			revision.PhaseOptions = map[string][]PhaseTeardownOption{}
		}
		revision.PhaseOptions[phaseName] = append(revision.PhaseOptions[phaseName], opts...)
	})
}
