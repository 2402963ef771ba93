// SPDX-License-Identifier: Apache-2.0

package types

// The options that functions return are pointers, so that two option values can
// be compared and used as keys of a map.

// objectReconcileOption lifts a change of object options to phases and revisions.
type objectReconcileOption struct {
	apply func(opts *ObjectReconcileOptions)
}

func (o *objectReconcileOption) ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions) {
	o.apply(opts)
}

func (o *objectReconcileOption) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, o)
}

func (o *objectReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, o)
}

// objectTeardownOption lifts a change of object options to phases and revisions.
type objectTeardownOption struct {
	apply func(opts *ObjectTeardownOptions)
}

func (o *objectTeardownOption) ApplyToObjectTeardownOptions(opts *ObjectTeardownOptions) {
	o.apply(opts)
}

func (o *objectTeardownOption) ApplyToPhaseTeardownOptions(opts *PhaseTeardownOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, o)
}

func (o *objectTeardownOption) ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, o)
}

// phaseReconcileOption lifts a change of phase options to revisions.
type phaseReconcileOption struct {
	apply func(opts *PhaseReconcileOptions)
}

func (o *phaseReconcileOption) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	o.apply(opts)
}

func (o *phaseReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, o)
}

// phaseTeardownOption lifts a change of phase options to revisions.
type phaseTeardownOption struct {
	apply func(opts *PhaseTeardownOptions)
}

func (o *phaseTeardownOption) ApplyToPhaseTeardownOptions(opts *PhaseTeardownOptions) {
	o.apply(opts)
}

func (o *phaseTeardownOption) ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, o)
}

type revisionReconcileOption struct {
	apply func(opts *RevisionReconcileOptions)
}

func (o *revisionReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	o.apply(opts)
}

type revisionTeardownOption struct {
	apply func(opts *RevisionTeardownOptions)
}

func (o *revisionTeardownOption) ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions) {
	o.apply(opts)
}
