// SPDX-License-Identifier: Apache-2.0

// Package installer is the installer controller: it makes the cluster match the desired
// version. One reconcile handles all versions, because they hand over objects to each other:
//
//  1. It reads the ClusterAPI object and the revision ConfigMaps consistently.
//  2. It deletes temporary objects that an earlier process has left behind.
//  3. If spec.installerMode is Paused, it reports the changes that it would make. If the
//     ClusterAPI object is deleted, it removes all versions.
//  4. Otherwise it installs: it deletes the objects that intercept requests of versions that were never complete, and reconciles the newest version, and the next older one until
//     one is complete or the current one, so that running providers are maintained even if
//     the new release fails. attempt has the steps for a version.
//  5. It releases the CRDs that are unmanaged now.
//  6. It removes the versions whose ConfigMaps are being deleted: first the Deployments, then the last phase first.
//  7. It reports the gravest outcome.
//
// Its decisions are computed from values: a version is read from ConfigMaps, a
// plan made from a version, an attempt is the result of applying a plan, and outcomes, phases
// and events follow from the attempt. Package engine applies, package adoption decides on
// colliding objects, package compatibility checks unmanaged CRDs, and package removal removes.
package installer

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/snapshot"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Reconcile brings the cluster one step closer to the desired version.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	read, err := snapshot.Read(ctx, r.Namespaces.Operator, r.Client, r.Live)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Official.AddUnmanaged(ctx, read.Cluster); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Remover.CleanUp(ctx); err != nil { // even if paused: the policy rejects users' writes
		return reconcile.Result{}, err
	}
	s, err := r.withSecrets(ctx, read)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.Cluster.Spec.InstallerMode == v1alpha1.Paused {
		outcome := r.pausedOutcome
		if s.Uninstalling() {
			outcome = r.pausedUninstall
		}
		return r.report(ctx, s.Cluster, outcome(ctx, s), "")
	}
	r.log.once(ctx, "Paused", "")
	if s.Uninstalling() {
		return r.uninstall(ctx, s)
	}
	if err := r.hold(ctx, s.Cluster); apierrors.IsConflict(err) { // the object has changed since it was read
		return reconcile.Result{}, err
	} else if err != nil {
		return r.report(ctx, s.Cluster, status.Outcome{Reason: reason.ApplyFailed, Err: err}, "")
	}
	outcome, current := r.install(ctx, s)
	removed := r.teardown(s).deleted(ctx)
	outcome, behind := withRemoval(outcome, removed)
	r.behind(ctx, &outcome, "Removal failed", behind)
	if outcome.Complete() && s.Cluster.Status.Settled() {
		if err := r.nameRetained(ctx, s, &outcome); err != nil {
			return reconcile.Result{}, err
		}
		r.Applier.Engine.Settle()
	}
	return r.report(ctx, s.Cluster, outcome, current)
}

// withRemoval merges the outcomes of an installation and of removals. A removal is
// reported once the desired version is installed; before, its error is returned.
func withRemoval(outcome, removed status.Outcome) (status.Outcome, error) {
	outcome.Events = append(outcome.Events, removed.Events...)
	outcome.Phases = mergePhases(outcome.Phases, removed.Phases)
	outcome.RecheckWithin(removed.Recheck)
	if outcome.Complete() && removed.Reason != reason.AsExpected {
		outcome.Reason, outcome.Message, outcome.Err = removed.Reason, removed.Message, removed.Err
		return outcome, nil
	}
	return outcome, removed.Err
}

// install reconciles the versions, newest first, until one is complete that needs no other. It
// returns the outcome of the newest version, and its name if it is complete.
func (r *Reconciler) install(ctx context.Context, s state) (outcome status.Outcome, current string) {
	versions := slices.Clone(s.Cluster.Status.Versions)
	if len(versions) == 0 && status.Unsupported(s.Cluster.Status.Conditions) {
		return status.Outcome{Reason: reason.UnsupportedPlatform, Message: "nothing to install; see VersionProgressing"}, ""
	}
	if len(versions) == 0 {
		return status.Outcome{Reason: reason.NoRevision, Message: "waiting for the version controller to create the first version"}, ""
	}
	slices.SortFunc(versions, func(a, b v1alpha1.Version) int { return cmp.Compare(b.Revision, a.Revision) })
	disarmed, errDisarmed := disarmer{&r.Applier, r.Live, r.Client}.disarm(ctx, s)
	var results []versionResult
	var drift []status.Event
	phases := map[string][]v1alpha1.Phase{}
	for _, version := range versions {
		result := r.installVersion(ctx, s, version)
		results, drift = append(results, result), append(drift, result.drift...)
		if version.Name == s.Cluster.Status.CurrentVersion || result.complete && result.inherited == nil {
			break
		}
	}
	results[0] = results[0].inheriting(results[len(results)-1])
	for i, result := range results {
		if result.phases != nil {
			phases[versions[i].Name] = result.phases
		}
	}
	err := r.Remover.ReleaseCRDs(ctx, s.Cluster.Spec.UnmanagedCRDs, nil)
	if err != nil && results[0].outcome.Complete() {
		results[0].outcome.Reason, results[0].outcome.Err = reason.ApplyFailed, err
	} else {
		r.behind(ctx, &results[0].outcome, "Unmanaged CRDs not released", err)
	}
	if results[0].complete {
		current = versions[0].Name
	}
	outcome = disarmed.explain(results[0].outcome)
	r.behind(ctx, &outcome, "Objects that intercept requests not deleted", errDisarmed)
	outcome.Installed, outcome.Events, outcome.Phases = anyAvailable(results), slices.Concat(drift, disarmed.events()), phases
	return outcome, current
}

// versionResult is the result of reconciling one version once.
type versionResult struct {
	outcome status.Outcome
	// drift holds events about reverted external changes.
	drift []status.Event
	// phases is the state of each phase; nil if it is unknown.
	phases []v1alpha1.Phase
	// inherited are the phases of the version that the current version maintains.
	inherited []revision.Phase
	// complete is set when every object of the version exists and is ready, except the objects of inherited phases.
	complete bool
	// available reports whether the version was complete before and its objects are
	// still available; nil if unknown.
	available *bool
}

// inheriting returns the result of a version with the inherited phases of the current version: it is complete when they are. A current version
// that cannot be read prevents no upgrade.
func (v versionResult) inheriting(current versionResult) versionResult {
	v.phases = slices.Clone(v.phases)
	for _, phase := range v.inherited {
		named := func(of v1alpha1.Phase) bool { return of.Name == phase.Name }
		into, from := slices.IndexFunc(v.phases, named), slices.IndexFunc(current.phases, named)
		if into < 0 || from < 0 {
			continue
		}
		if v.phases[into] = current.phases[from]; v.complete && v.phases[into].State != v1alpha1.PhaseComplete {
			v.complete, v.outcome = false, current.outcome
		}
	}
	return v
}

// anyAvailable reports whether any version is available; nil if unknown.
func anyAvailable(results []versionResult) *bool {
	known := true
	for _, result := range results {
		if result.complete || result.available != nil && *result.available {
			return new(true)
		}
		known = known && result.available != nil
	}
	if !known {
		return nil
	}
	return new(false)
}

// installVersion reconciles one version.
func (r *Reconciler) installVersion(ctx context.Context, s state, entry v1alpha1.Version) versionResult {
	v, err := s.load(entry)
	if err != nil {
		return versionResult{outcome: status.Outcome{Reason: reason.RevisionUnreadable, Err: err}}
	}
	now := time.Now()
	deadline := deadlineOf(entry, s.Cluster.Status.Conditions, now, cmp.Or(r.ProgressTimeout, defaultProgressTimeout))
	done := r.Applier.attempt(ctx, s, v, deadline, now)
	explained, next := podReader{r.Live, &r.log}.explain(ctx, done.result, entry, now)
	done.result = explained
	r.log.phases(ctx, v.name, done.result.Phases)
	current := s.Cluster.Status.CurrentVersion
	out := versionResult{
		outcome: done.outcome(), phases: done.phases(), inherited: done.plan.others, complete: done.complete(), available: done.available(current),
		drift: slices.Concat(done.adoptionEvents(ctx), r.Replacer.Events(v.name), done.driftEvents(current, &r.Applier.contention), done.restoreEvents(), done.replaced),
	}
	out.outcome = untilDeadline(out.outcome, deadline.Sub(now))
	out.outcome.RecheckWithin(done.next)
	out.outcome.RecheckWithin(next)
	if len(done.plan.requesting()) > 0 {
		out.outcome.RecheckWithin(servingcert.RecheckInterval)
	}
	return out
}

// untilDeadline causes a reconcile when a rollout is late. A migration continues earlier.
func untilDeadline(outcome status.Outcome, left time.Duration) status.Outcome {
	if outcome.Reason == reason.RollingOut {
		outcome.RecheckWithin(left)
	}
	return outcome
}

// nameRetained adds the CRDs that removed versions have left behind to the message of a
// settled version.
func (r *Reconciler) nameRetained(ctx context.Context, s state, outcome *status.Outcome) error {
	names, err := removal.Retained(ctx, r.Client)
	if err != nil || len(names) == 0 {
		return err
	}
	p, err := r.Applier.plans.stored(s, *s.Cluster.Status.Version(s.Cluster.Status.CurrentVersion))
	if err != nil {
		return err
	}
	others := sets.New(s.Cluster.Spec.UnmanagedCRDs...).Union(p.crds()) // the cache can show an adopted CRD as it was before
	names = slices.DeleteFunc(names, others.Has)
	if len(names) > 0 {
		outcome.Message = settledMessage(outcome.Message, "CRDs retained because of their instances: "+text.First(10, names))
	}
	return nil
}
