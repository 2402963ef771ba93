// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/crdpack"
	"github.com/capi-installer/capi-installer/internal/object"
)

// attempt is the result of reconciling one version once.
type attempt struct {
	plan  plan
	scope scope
	// late is set when the rollout has made no progress until its deadline.
	late bool
	// applied is set if result is known.
	applied bool
	result  engine.Result
	// findings are the result of the preflight, and risks are accepted by the administrator.
	findings []preflight.Finding
	risks    []v1alpha1.AcceptedRisk
	// immutable are the rejected objects that the administrator deletes, so that the version continues.
	immutable sets.Set[object.Identity]
	// verdicts are those on unmanaged CRDs.
	verdicts []compatibility.Verdict
	// former are the CRDs that are no longer unmanaged, and refused those that are not
	// adopted, each with the reason.
	former  adoption.Candidates
	refused []string
	// works is set if every object is available.
	works bool
	// contested are the objects of the version whose reverts are paused, and next is the time until one of them ends.
	contested string
	next      time.Duration
	// replaced is the event about values that admission plugins replace.
	replaced []status.Event
	// taken and adopted are the objects of cluster-capi-operator adopted in
	// this reconcile and in the whole rollout.
	taken   []object.Identity
	adopted adoption.Taken
	// err is the first error that ended the attempt, or the errors of all objects.
	err error
}

// attempt reconciles a version in these steps:
//
//  1. divide it into phases, check the permissions for all of them before the first object of
//     a new version is written, leave out the phases that the current version maintains, and watch
//     the kinds of its objects;
//  2. create the certificate authority, and write its bundle into the objects that trust it;
//  3. leave out the objects that it no longer controls, if the version was superseded;
//  4. judge all objects of a new version, and rehearse its pods, before the first one is written;
//  5. check its unmanaged CRDs, where OpenShift's checker does not;
//  6. apply its phases, and adopt objects;
//  7. issue the certificates of its Services.
func (r *Applier) attempt(ctx context.Context, s state, v version, deadline, now time.Time) attempt {
	out := attempt{plan: plan{version: v}, scope: scopeOf(v.name, s.Cluster.Status), late: isLate(deadline, now)}
	out.plan, out.err = r.planOf(ctx, v)
	if out.err = cmp.Or(out.err, out.plan.concealed); out.err != nil {
		return out
	}
	if !reflect.DeepEqual(r.ignored, v.ignored) { // a changed drift policy ends the pauses
		r.contests, r.ignored = nil, v.ignored
	}
	if out.scope == rollout {
		out.risks = s.Cluster.Spec.AcceptedRisks
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
	if out.plan, out.err = r.trust(ctx, out.plan); out.err != nil {
		return out
	}
	if out.scope == controlledOnly {
		var rev engine.Revision
		if rev, out.err = r.Engine.Controlled(ctx, out.plan.revision(), r.Engine.Reader); out.err != nil {
			return out
		}
		out.plan = out.plan.controlled(rev)
	}
	out.former = adoption.Candidates{
		Numbers: adoption.Formerly(s.Cluster.Status.Versions, v.unmanaged),
		Incompatibility: func(ctx context.Context, crd string, number int64) (string, error) {
			return r.incompatibility(ctx, s, crd, number)
		},
	}
	if out.scope == rollout {
		before := trial{r, s, out}
		if out.findings, out.err = before.findings(ctx); out.err != nil || preflight.Blocking(out.findings) != nil {
			return out
		}
	}
	out = r.checkAndApply(ctx, s, out, now)
	if out.immutable = r.immutable(ctx, out); out.scope == rollout {
		r.Preflight.deletions.add(out.plan.name, out.immutable)
	}
	out.works = r.Engine.Available(ctx, out.plan.revision(), out.result)
	reissued, errIssued := r.certified.issue(ctx, r.Engine.Changes, r.Certificates, out.plan, r.contests[out.plan.name], now)
	out.contested, out.next = r.contend(s, out, reissued, now).message(now)
	if out.scope == maintenance {
		replaced := replacementsIn(out.result)
		out.replaced, r.replaced = replaced.event(r.replaced), replaced
		if len(replaced) > 0 && out.next == 0 {
			out.next = replacedRecheck
		}
	}
	out.err = errors.Join(out.err, errIssued)
	return out
}

// checkAndApply checks the unmanaged CRDs and applies the phases. A version that is rolled
// out is applied only if they are compatible.
func (r *Applier) checkAndApply(ctx context.Context, s state, a attempt, now time.Time) attempt {
	phases, verdicts, errChecked := r.check(ctx, a.plan)
	a.applied, a.verdicts, a.result.Phases = true, verdicts, phases
	if a.scope == rollout && !a.result.Complete() {
		a.err = errChecked
		return a
	}
	a = r.applyAndAdopt(ctx, s, a, now)
	a.result.Phases = slices.Concat(phases, a.result.Phases)
	a.verdicts = append(verdicts, compatibility.Of(a.result)...)
	a.err = errors.Join(errChecked, a.err)
	return a
}

// applyAndAdopt applies the phases, and again as long as it may adopt colliding objects. It
// does so also after an error, because the error may concern another object. The objects of
// the next phase collide only after the objects of this one are adopted.
func (r *Applier) applyAndAdopt(ctx context.Context, s state, a attempt, now time.Time) attempt {
	rev := a.plan.revision()
	how := engine.Apply{Ordered: a.scope == rollout, Adopt: sets.New[object.Identity](), Older: r.plans.older(s)}
	if a.scope == rollout {
		how.Prepare = trial{r, s, a}.prepare
	}
	if a.scope == maintenance {
		how.Reserved = r.Preflight.reserved(s, a.plan.version)
	}
	known := r.contests[a.plan.name]
	how.Paused = func(o object.Identity) bool {
		return known.paused(o, now) || a.scope == controlledOnly && leaves(o.GroupKind)
	}
	for {
		a.result, a.err = r.Engine.Apply(ctx, rev, how)
		decision, err := r.Adopter.Decide(ctx, a.plan.name, a.result.Collisions(), a.former)
		a.refused, a.taken, a.adopted = decision.Refused, append(a.taken, decision.Taken...), r.Adopter.Taken(a.plan.name)
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

// prepare prepares the cluster for a phase.
func (t trial) prepare(ctx context.Context, phase revision.Phase) error {
	if err := t.dropVersions(ctx, phase); err != nil {
		return err
	}
	return t.stopMoved(ctx, phase)
}

// dropVersions prepares the CRDs of a phase that lack stored versions.
func (r *Applier) dropVersions(ctx context.Context, phase revision.Phase) error {
	for _, obj := range phase.Objects {
		if !object.IsCRD(obj) || r.DropVersions == nil {
			continue
		}
		crd, err := crdpack.Unpack(obj)
		if err != nil {
			return err
		}
		if err := r.DropVersions(ctx, crd); err != nil {
			return err
		}
	}
	return nil
}

// incompatibility returns the reason why a CRD is not known to be compatible with the
// version with a revision number; empty if it is.
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
		return r.Checker.Unmet(ctx, revision.RequirementName(crd, former.number))
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
