// SPDX-License-Identifier: Apache-2.0

package types

import "sigs.k8s.io/controller-runtime/pkg/client"

// WithAggregatePhaseReconcileErrors tries all objects of a phase and joins their
// errors. Only "too many requests" still stops the phase at once.
func WithAggregatePhaseReconcileErrors() PhaseReconcileOption {
	return &phaseReconcileOption{func(opts *PhaseReconcileOptions) { opts.AggregateErrors = true }}
}

// WithAggregatePhaseTeardownErrors tries all objects of a phase and joins their
// errors. Only "too many requests" still stops the phase at once.
func WithAggregatePhaseTeardownErrors() PhaseTeardownOption {
	return &phaseTeardownOption{func(opts *PhaseTeardownOptions) { opts.AggregateErrors = true }}
}

// WithObjectReconcileOptions sets the options of one object, which is identified
// by kind, namespace and name. If given twice for an object, the last one wins.
func WithObjectReconcileOptions(obj client.Object, opts ...ObjectReconcileOption) PhaseReconcileOption {
	ref := ToObjectRef(obj)
	return &phaseReconcileOption{func(phase *PhaseReconcileOptions) {
		setOptions(&phase.ObjectOptions, ref, opts)
	}}
}

// WithObjectTeardownOptions sets the options of one object, which is identified
// by kind, namespace and name. If given twice for an object, the last one wins.
func WithObjectTeardownOptions(obj client.Object, opts ...ObjectTeardownOption) PhaseTeardownOption {
	ref := ToObjectRef(obj)
	return &phaseTeardownOption{func(phase *PhaseTeardownOptions) {
		setOptions(&phase.ObjectOptions, ref, opts)
	}}
}

// WithPhaseReconcileOptions sets the options of the phase of that name. If given
// twice for a phase, the last one wins.
func WithPhaseReconcileOptions(phaseName string, opts ...PhaseReconcileOption) RevisionReconcileOption {
	return &revisionReconcileOption{func(revision *RevisionReconcileOptions) {
		setOptions(&revision.PhaseOptions, phaseName, opts)
	}}
}

// WithPhaseTeardownOptions sets the options of the phase of that name. If given
// twice for a phase, the last one wins.
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
