// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// attempt reconciles a version in these steps:
//
//  1. divide it into phases, check the permissions for all of them before the first object of
//     a new version is written, leave out the phases that the current version maintains, and watch
//     the kinds of its objects;
//  2. create the certificate authority, and write its bundle into the objects that trust it;
//  3. leave out the objects that it no longer controls, if the version was superseded;
//  4. judge all objects of a new version before the first one is written;
//  5. check its unmanaged CRDs, where OpenShift's checker does not;
//  6. apply its phases, and adopt objects;
//  7. issue the certificates of its Services.
func (r *Applier) attempt(ctx context.Context, s state, v version, deadline, now time.Time) attempt {
	out := attempt{plan: plan{version: v}, judged: judgement{version: v.name, accepted: s.Cluster.Spec.AcceptedRisks}, scope: scopeOf(v.name, s.Cluster.Status), late: isLate(deadline, now)}
	out = r.divide(ctx, s, out)
	out.former = r.formerly(s, v)
	if out.scope != rollout {
		return r.execute(ctx, s, out, now)
	}
	if out.err == nil {
		out.judged.findings, out.err = r.trial(s, out).findings(ctx)
	}
	out = r.execute(ctx, s, out, now)
	if out.err != nil || out.result.Rejections() != nil {
		r.passed.created = nil // the API server is asked again
	}
	r.deletions = r.deletions.with(v.name, out.deletions())
	return out
}

// divide returns an attempt with the phases that are applied: steps 1 to 3.
func (r *Applier) divide(ctx context.Context, s state, out attempt) attempt {
	v := out.plan.version
	out.plan, out.err = r.planOf(ctx, v)
	if out.err = cmp.Or(out.err, out.plan.concealed); out.err != nil {
		return out
	}
	if out.scope == rollout && r.passed.version != v.name {
		if out.err = r.Permissions.check(ctx, out.plan); out.err != nil {
			return r.unpermitted(ctx, s, out)
		}
	}
	if out.scope != maintenance {
		out.plan = out.plan.without(s.currentParts())
	}
	if out.err = r.Engine.Watch(ctx, out.plan.revision()); out.err != nil {
		return out
	}
	if out.err = r.Certificates.Prepare(ctx, out.plan.requesting()); out.err != nil {
		return out
	}
	if out.plan, out.err = out.plan.trusting(ctx, r.Certificates); out.err != nil || out.scope != controlledOnly {
		return out
	}
	rev, err := r.Engine.Controlled(ctx, out.plan.revision(), r.Engine.Reader)
	if out.err = err; err == nil {
		out.plan = out.plan.controlled(rev)
	}
	return out
}

// formerly returns the CRDs that are no longer unmanaged.
func (r *Applier) formerly(s state, v version) adoption.Candidates {
	return adoption.Candidates{
		Namespace: s.namespaces.Operator, Numbers: adoption.Formerly(s.Cluster.Status.Versions, v.unmanaged),
		Incompatibility: func(ctx context.Context, crd string, number int64) (string, error) {
			return r.incompatibility(ctx, s, crd, number)
		},
	}
}

// execute takes the steps 5 to 7, unless an error or a finding stops the attempt.
func (r *Applier) execute(ctx context.Context, s state, out attempt, now time.Time) attempt {
	if out.err != nil || out.judged.blocking() != nil {
		return out
	}
	out = r.checkAndApply(ctx, s, out, now)
	out.immutable = immutable(ctx, &r.Guards, out.plan, out.result)
	out.works = r.Engine.Available(ctx, out.plan.revision(), out.result)
	key := out.plan.key()
	reissued, errIssued := r.certified.issue(ctx, r.Engine.Changes, r.Certificates, out.plan, now, func(secret object.Identity) bool {
		return r.contention.paused(subject{key, secret}, now)
	})
	out.contested = r.contention.after(key, out.result, out.scope, reissued, now)
	if out.scope == maintenance {
		replaced := replacementsIn(out.result)
		out.replaced, r.replaced = replaced.event(r.replaced), replaced
		if len(replaced) > 0 {
			out.next = replacedRecheck
		}
	}
	out.err = errors.Join(out.err, errIssued)
	return out
}

// unpermitted returns an attempt for which permissions are missing, with the other findings, so that the administrator sees all at once.
// The cache cannot watch kinds without permission.
func (r *Applier) unpermitted(ctx context.Context, s state, a attempt) attempt {
	if !errors.As(a.err, new(*permissionsError)) || r.Guards.Live == nil {
		return a
	}
	a.plan = a.plan.without(s.currentParts())
	trial, live := r.trial(s, a), r.Guards
	live.Cache, trial.guards = nil, &live
	found, _, err := trial.judge(ctx)
	a.judged.findings = slices.DeleteFunc(found, func(f guard.Finding) bool { return f.Reason == reason.ObjectsForbidden }) // the error has the rules
	a.err = errors.Join(a.err, err)
	return a
}

// checkAndApply checks the unmanaged CRDs and applies the phases. A version that is rolled
// out is applied only if they are compatible.
func (r *Applier) checkAndApply(ctx context.Context, s state, a attempt, now time.Time) attempt {
	phases, verdicts, errChecked := a.plan.check(ctx, &r.Checker)
	a.applied, a.verdicts, a.result.Phases = true, verdicts, phases
	if a.scope == rollout && !a.result.Complete() {
		a.err = errChecked
		return a
	}
	a = r.applyAndAdopt(ctx, s, a, now)
	if a.scope == rollout && a.err == nil && a.result.Complete() {
		a.err = r.Guards.AllReadable(ctx, a.plan.phases)
	}
	a.result.Phases = slices.Concat(phases, a.result.Phases)
	a.verdicts = slices.Concat(verdicts, compatibility.Of(a.result))
	a.err = errors.Join(errChecked, a.err)
	return a
}

// applyAndAdopt applies the phases, and again as long as it may adopt colliding objects. It
// does so also after an error, because the error may concern another object. The objects of
// the next phase collide only after the objects of this one are adopted.
func (r *Applier) applyAndAdopt(ctx context.Context, s state, a attempt, now time.Time) attempt {
	rev := a.plan.revision()
	how := engine.Apply{Ordered: a.scope == rollout, Replaced: s.Cluster.Status.DesiredVersion != a.plan.name, Adopt: sets.New[object.Identity](), Older: r.plans.older(s)}
	if a.scope == rollout {
		how.Readable, how.Checked = r.Guards.Readable, r.passed.created
		how.Prepare = func(ctx context.Context, phase revision.Phase, released bool) error {
			moved, err := r.trial(s, a).prepare(ctx, phase, released)
			a.moved = a.moved.Union(sets.New(moved...))
			return err
		}
	}
	if a.scope == maintenance {
		how.Reserved = r.deletions.reserved(s, a.plan.name)
	}
	key := a.plan.key()
	how.Paused = func(o object.Identity) bool {
		return r.contention.paused(subject{key, o}, now) || a.scope == controlledOnly && leaves(o.GroupKind)
	}
	for {
		a.result, a.err = r.Engine.Apply(ctx, rev, how)
		collisions := a.result.Collisions()
		if how.Replaced { // the desired version adopts CRDs: instances can be stored in a version that only it has
			collisions = slices.DeleteFunc(collisions, func(o engine.Object) bool { return o.GroupKind == object.CustomResourceDefinition })
		}
		decision, err := r.Adopter.Decide(ctx, collisions, a.former)
		a.refused, a.taken = decision.Refused, append(a.taken, decision.Taken...)
		if err != nil {
			a.err = errors.Join(a.err, err)
			return a
		}
		// At once: until then, another controller can follow instructions of an adopted object and write it after each apply.
		errFinished := r.Adopter.Finish(ctx, rev, a.result)
		if a.err = errors.Join(a.err, errFinished); errFinished != nil || how.Adopt.IsSuperset(decision.Adopt) {
			return a
		}
		how.Adopt = how.Adopt.Union(decision.Adopt)
	}
}

// incompatibility returns the reason why a CRD is not known to be compatible with the version with a revision number; empty if it is. Where
// OpenShift's checker has reported nothing, the installer compares the CRDs: an unmanaged CRD can be managed again before the version with it was
// checked.
func (r *Applier) incompatibility(ctx context.Context, s state, crd string, number int64) (string, error) {
	served, err := r.Checker.Served(ctx)
	if err != nil {
		return "", err
	}
	former, err := s.loadNumber(number)
	if err != nil {
		return "", err
	}
	if served {
		why, answered, err := r.Checker.Unmet(ctx, revision.RequirementName(crd, former.number))
		if answered || err != nil {
			return why, err
		}
	}
	p, err := r.plans.of(former)
	if err != nil {
		return "", err
	}
	verdicts, err := r.Checker.Check(ctx, p.checkKey(), p.checking().checks)
	if err != nil {
		return "", err
	}
	for _, o := range compatibility.Phase(verdicts).Objects {
		if o.Name == crd {
			return o.Reason, nil
		}
	}
	return "version " + former.name + " does not contain it", nil
}
