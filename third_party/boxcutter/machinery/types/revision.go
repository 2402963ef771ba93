// SPDX-License-Identifier: Apache-2.0

package types

import (
	"pkg.package-operator.run/boxcutter/internal/compat"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Revision is a desired state that is rolled out phase by phase.
type Revision interface {
	// GetName returns the name. It appears in messages only.
	GetName() string
	// GetRevisionNumber returns the number, 1 or more. Revisions with higher
	// numbers adopt the objects of siblings with lower numbers.
	GetRevisionNumber() int64
	// GetPhases returns the phases in reconcile order.
	GetPhases() []Phase
	// GetReconcileOptions returns the revision's own options for Reconcile.
	GetReconcileOptions() []RevisionReconcileOption
	// GetTeardownOptions returns the revision's own options for Teardown.
	GetTeardownOptions() []RevisionTeardownOption
}

// RevisionBuilder is a Revision that takes options.
type RevisionBuilder interface {
	Revision
	// WithReconcileOptions adds options for Reconcile.
	WithReconcileOptions(opts ...RevisionReconcileOption) RevisionBuilder
	// WithTeardownOptions adds options for Teardown.
	WithTeardownOptions(opts ...RevisionTeardownOption) RevisionBuilder
}

type revision struct {
	name             string
	number           int64
	phases           []Phase
	reconcileOptions []RevisionReconcileOption
	teardownOptions  []RevisionTeardownOption
}

// NewRevision returns a revision of the given phases.
func NewRevision(
	name string,
	revNumber int64,
	phases []Phase,
) RevisionBuilder {
	return &revision{name: name, number: revNumber, phases: phases, teardownOptions: []RevisionTeardownOption{}}
}

// NewRevisionWithOwner returns a revision whose objects belong to an owner.
func NewRevisionWithOwner(
	name string,
	revNumber int64,
	phases []Phase,
	owner client.Object, ownerStrat OwnerStrategy,
) RevisionBuilder {
	option := WithOwner(owner, ownerStrat)
	return NewRevision(name, revNumber, phases).WithReconcileOptions(option).WithTeardownOptions(option)
}

// NewRevisionWithOwnerAndSiblings returns a revision whose objects belong to an
// owner and may be adopted from its siblings, the owners of other revisions.
func NewRevisionWithOwnerAndSiblings(
	name string,
	revNumber int64,
	phases []Phase,
	owner client.Object, ownerStrat OwnerStrategy,
	siblings []client.Object,
) RevisionBuilder {
	option := WithOwner(owner, ownerStrat)
	return NewRevision(name, revNumber, phases).
		WithReconcileOptions(option, WithSiblingOwners(siblings)).
		WithTeardownOptions(option)
}

func (r *revision) GetName() string                                { return r.name }
func (r *revision) GetRevisionNumber() int64                       { return r.number }
func (r *revision) GetPhases() []Phase                             { return r.phases }
func (r *revision) GetReconcileOptions() []RevisionReconcileOption { return r.reconcileOptions }
func (r *revision) GetTeardownOptions() []RevisionTeardownOption   { return r.teardownOptions }

func (r *revision) WithReconcileOptions(opts ...RevisionReconcileOption) RevisionBuilder {
	if compat.Original {
		r.reconcileOptions = nil
	}
	r.reconcileOptions = append(r.reconcileOptions, opts...)
	return r
}

func (r *revision) WithTeardownOptions(opts ...RevisionTeardownOption) RevisionBuilder {
	if compat.Original {
		r.teardownOptions = nil
	}
	r.teardownOptions = append(r.teardownOptions, opts...)
	return r
}
