// SPDX-License-Identifier: Apache-2.0

package types

import "sigs.k8s.io/controller-runtime/pkg/client"

// WithAggregatePhaseReconcileErrors tries all objects of a phase and joins their
// errors. Only "too many requests" still stops the phase immediately.
func WithAggregatePhaseReconcileErrors() PhaseReconcileOption {
	return &phaseReconcileOption{func(opts *PhaseReconcileOptions) { opts.AggregateErrors = true }}
}

// WithAggregatePhaseTeardownErrors tries all objects of a phase and joins their
// errors. Only "too many requests" still stops the phase immediately.
func WithAggregatePhaseTeardownErrors() PhaseTeardownOption {
	return &phaseTeardownOption{func(opts *PhaseTeardownOptions) { opts.AggregateErrors = true }}
}

// WithObjectReconcileOptions sets the options of one object, identified by kind,
// namespace and name. The last option for an object takes precedence.
func WithObjectReconcileOptions(obj client.Object, opts ...ObjectReconcileOption) PhaseReconcileOption {
	ref := ToObjectRef(obj)
	return &phaseReconcileOption{func(phase *PhaseReconcileOptions) {
		setOptions(&phase.ObjectOptions, ref, opts)
	}}
}

// WithObjectTeardownOptions sets the options of one object, identified by kind,
// namespace and name. The last option for an object takes precedence.
func WithObjectTeardownOptions(obj client.Object, opts ...ObjectTeardownOption) PhaseTeardownOption {
	ref := ToObjectRef(obj)
	return &phaseTeardownOption{func(phase *PhaseTeardownOptions) {
		setOptions(&phase.ObjectOptions, ref, opts)
	}}
}

// WithPhaseReconcileOptions sets the options of the phase with this name. The
// last option for a phase takes precedence.
func WithPhaseReconcileOptions(phaseName string, opts ...PhaseReconcileOption) RevisionReconcileOption {
	return &revisionReconcileOption{func(revision *RevisionReconcileOptions) {
		setOptions(&revision.PhaseOptions, phaseName, opts)
	}}
}

// WithPhaseTeardownOptions sets the options of the phase with this name. The last
// option for a phase takes precedence.
func WithPhaseTeardownOptions(phaseName string, opts ...PhaseTeardownOption) RevisionTeardownOption {
	return &revisionTeardownOption{func(revision *RevisionTeardownOptions) {
		setOptions(&revision.PhaseOptions, phaseName, opts)
	}}
}

func setOptions[K comparable, O any](all *map[K][]O, key K, opts []O) {
	if *all == nil {
		*all = map[K][]O{}
	}
	(*all)[key] = opts
}
