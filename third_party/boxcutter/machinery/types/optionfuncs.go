// SPDX-License-Identifier: Apache-2.0

package types

// Options are pointers, so that they are comparable and usable as map keys.

// objectReconcileOption is an object option that can also be a default of phases
// and revisions.
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

// objectTeardownOption is an object option that can also be a default of phases
// and revisions.
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

// phaseReconcileOption is a phase option that can also be a default of revisions.
type phaseReconcileOption struct {
	apply func(opts *PhaseReconcileOptions)
}

func (o *phaseReconcileOption) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	o.apply(opts)
}

func (o *phaseReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, o)
}

// phaseTeardownOption is a phase option that can also be a default of revisions.
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
