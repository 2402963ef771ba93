// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
)

// Applier applies versions.
type Applier struct {
	// Engine applies revisions.
	Engine *engine.Engine
	// Adopter decides which existing objects a version adopts.
	Adopter adoption.Adopter
	// Checker checks unmanaged CRDs where OpenShift's checker is absent.
	Checker compatibility.Checker
	// Certificates issues the certificates that objects request with annotations.
	Certificates servingcert.Issuer
	// Permissions checks the permissions for a version before it is rolled out, and Guards protect the cluster and its instances.
	Permissions Permissions
	Guards      guard.Guards

	// A restart loses nothing of the following: plans are made again, certificates are checked again, reverts are counted again, replaced values are
	// named once more, and objects that are deleted for the desired version are found again if they exist.
	plans      planner
	certified  certified
	contention contention
	replaced   replacements
	deletions  deletions
	// passed is the version that nothing stops. A process that starts later judges it again, unless its rollout has begun.
	passed passed
}

// prepare divides a version into phases, leaves out the parts of others, and has the cache watch the kinds of the rest.
func (r *Applier) prepare(ctx context.Context, v version, others sets.Set[revision.Part]) (plan, error) {
	p, err := r.planOf(ctx, v)
	if err != nil {
		return p, err
	}
	p = p.without(others)
	return p, r.Engine.Watch(ctx, p.revision())
}

// planOf divides a version into phases. The installer checks unmanaged CRDs itself where
// OpenShift's checker is absent.
func (r *Applier) planOf(ctx context.Context, v version) (plan, error) {
	p, err := r.plans.of(v)
	if err != nil {
		return p, err
	}
	served, err := r.Checker.Served(ctx)
	if !served && err == nil {
		p = p.checking()
	}
	return p, err
}

// compare returns the result of applying a version, without writing.
func (r *Applier) compare(ctx context.Context, p plan) (engine.Result, error) {
	if err := r.Engine.Watch(ctx, p.revision()); err != nil {
		return engine.Result{}, err
	}
	checked, _, err := p.check(ctx, &r.Checker)
	if err != nil {
		return engine.Result{}, err
	}
	result, err := r.Engine.Compare(ctx, p.revision())
	result.Phases = slices.Concat(checked, result.Phases)
	return result, err
}

// forget drops the plan, the verdicts and the kept results of a removed version.
func (r *Applier) forget(ctx context.Context, p plan) error {
	delete(r.plans.known, p.name)
	r.Checker.Forget(p.checkKey())
	return r.Engine.Forget(ctx, p.revision())
}
