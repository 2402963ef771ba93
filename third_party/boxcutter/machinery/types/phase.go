// SPDX-License-Identifier: Apache-2.0

package types

import "sigs.k8s.io/controller-runtime/pkg/client"

// Phase is a named list of objects that are reconciled together. The phases of a
// revision are reconciled in order: a phase starts when the previous one is
// complete.
type Phase interface {
	// GetName returns the name, a DNS-1035 label that is unique in the revision.
	GetName() string
	// GetObjects returns the objects in reconcile order.
	GetObjects() []client.Object
	// GetReconcileOptions returns the phase's own options for Reconcile.
	GetReconcileOptions() []PhaseReconcileOption
	// GetTeardownOptions returns the phase's own options for Teardown.
	GetTeardownOptions() []PhaseTeardownOption
}

// PhaseBuilder is a Phase that takes options.
type PhaseBuilder interface {
	Phase
	// WithReconcileOptions adds options for Reconcile.
	WithReconcileOptions(opts ...PhaseReconcileOption) PhaseBuilder
	// WithTeardownOptions adds options for Teardown.
	WithTeardownOptions(opts ...PhaseTeardownOption) PhaseBuilder
}

type phase struct {
	name             string
	objects          []client.Object
	reconcileOptions []PhaseReconcileOption
	teardownOptions  []PhaseTeardownOption
}

// NewPhase returns a phase of the given objects.
func NewPhase(name string, objects []client.Object) PhaseBuilder {
	return &phase{name: name, objects: objects}
}

// NewPhaseWithOwner returns a phase whose objects belong to an owner.
func NewPhaseWithOwner(
	name string, objects []client.Object,
	owner client.Object, ownerStrat OwnerStrategy,
) PhaseBuilder {
	option := WithOwner(owner, ownerStrat)
	return NewPhase(name, objects).WithReconcileOptions(option).WithTeardownOptions(option)
}

// NewPhaseWithOwnerAndSiblings returns a phase whose objects belong to an owner
// and may be adopted from its siblings.
func NewPhaseWithOwnerAndSiblings(
	name string, objects []client.Object,
	owner client.Object, ownerStrat OwnerStrategy,
	siblings []client.Object,
) PhaseBuilder {
	return NewPhaseWithOwner(name, objects, owner, ownerStrat).
		WithReconcileOptions(WithSiblingOwners(siblings))
}

func (p *phase) GetName() string                             { return p.name }
func (p *phase) GetObjects() []client.Object                 { return p.objects }
func (p *phase) GetReconcileOptions() []PhaseReconcileOption { return p.reconcileOptions }
func (p *phase) GetTeardownOptions() []PhaseTeardownOption   { return p.teardownOptions }

func (p *phase) WithReconcileOptions(opts ...PhaseReconcileOption) PhaseBuilder {
	p.reconcileOptions = append(p.reconcileOptions, opts...)
	return p
}

func (p *phase) WithTeardownOptions(opts ...PhaseTeardownOption) PhaseBuilder {
	p.teardownOptions = append(p.teardownOptions, opts...)
	return p
}
