// SPDX-License-Identifier: Apache-2.0

// Package installer is the installer controller: it makes the cluster match the desired
// version.
//
// Each reconcile starts with the newest version and applies its objects phase by phase;
// a phase begins when all objects of the previous phase are ready. A complete version
// becomes the current version. Until then the next older version is reconciled too, so
// that running providers are maintained even if the new release fails. The objects of a
// deleted revision ConfigMap are torn down, last phase first.
//
// One reconcile handles all versions, because they hand over objects to each other.
package installer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/snapshot"
	"github.com/capi-installer/capi-installer/install/status"
)

// Reconciler is the installer controller.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Reporter writes outcomes to the status objects.
	Reporter *status.Reporter
	// Official reads OpenShift's own ClusterAPI object. If it is nil, that object is
	// ignored.
	Official *officialapi.Source
	// Engine applies and tears down the objects of revisions.
	Engine *Engine
	// ProgressTimeout is how long a rollout may make no progress before the operator is
	// Degraded; 0 means 30 minutes.
	ProgressTimeout time.Duration
	// Withdraw, if set, is called before an uninstall deletes objects. It deletes an object of the installer's own whose CRD
	// would be retained otherwise.
	Withdraw func(context.Context) error
	// Progressed, if set, is called when a rollout or a removal has made progress, so that
	// an error is retried soon.
	Progressed func()

	log       rolloutLog
	confirmed snapshot.Confirmed
}

// Reconcile brings the cluster one step closer to the desired version.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	read, err := r.confirmed.Read(ctx, r.Client, r.Live)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Official.AddUnmanaged(ctx, read.Cluster); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Engine.liftDeletionGuard(ctx); err != nil { // even if paused: it rejects users' writes
		return reconcile.Result{}, err
	}
	if err := r.Engine.withdrawInstances(ctx); err != nil {
		return reconcile.Result{}, err
	}
	s := state{read}
	if s.Cluster.Spec.InstallerMode == v1alpha1.Paused {
		outcome := r.pausedOutcome
		if s.Uninstalling() {
			outcome = r.pausedUninstall
		}
		return r.report(ctx, s.Cluster, outcome(ctx, s), "")
	}
	r.log.once(ctx, "Paused", "")
	if s.Uninstalling() {
		return r.withdrawAndUninstall(ctx, s)
	}
	if err := r.hold(ctx, s.Cluster); err != nil {
		return r.report(ctx, s.Cluster, status.Outcome{Reason: reason.ApplyFailed, Err: err}, "")
	}
	outcome, current := r.install(ctx, s)
	removed := r.teardown(ctx, s)
	if outcome.Reason == reason.AsExpected && removed.Reason != reason.AsExpected {
		outcome.Reason, outcome.Message, outcome.Err = removed.Reason, removed.Message, removed.Err
	} else {
		r.behind(ctx, &outcome, "Removal failed", removed.Err)
	}
	if outcome.Reason == reason.AsExpected && s.Cluster.Status.Settled() {
		r.Engine.settle(s.Cluster.Status.CurrentVersion)
		if err := r.nameRetained(ctx, &outcome, s.Cluster.Spec.UnmanagedCRDs); err != nil {
			return reconcile.Result{}, err
		}
	}
	outcome.Events = append(outcome.Events, removed.Events...)
	outcome.Phases = mergePhases(outcome.Phases, removed.Phases)
	return r.report(ctx, s.Cluster, outcome, current)
}

// report writes the outcome, and the current version if it is not empty, and returns the
// result of the reconcile.
func (r *Reconciler) report(ctx context.Context, cluster *v1alpha1.ClusterAPI, outcome status.Outcome, current string) (reconcile.Result, error) {
	r.log.failure(ctx, outcome)
	var reported status.Reported
	var err error
	if cluster.Name == "" {
		err = r.Reporter.ReportWithout(ctx, outcome)
	} else {
		reported, err = r.Reporter.Report(ctx, cluster, status.Installer, outcome, func(s *v1alpha1.ClusterAPIStatus) {
			if current != "" && s.Version(current) != nil {
				s.CurrentVersion = current
			}
		})
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.Progressed != nil && status.Advanced(cluster.Status.Versions, outcome.Phases) {
		r.Progressed()
	}
	return reported.Result(outcome)
}

// install reconciles the versions, newest first, until one is complete. It
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
	var results []versionResult
	var drift []status.Event
	phases := map[string][]v1alpha1.Phase{}
	for _, version := range versions {
		result := r.installVersion(ctx, s, version)
		results, drift = append(results, result), append(drift, result.drift...)
		if result.phases != nil {
			phases[version.Name] = result.phases
		}
		if result.complete || version.Name == s.Cluster.Status.CurrentVersion {
			break
		}
	}
	err := r.Engine.releaseCRDs(ctx, s.Cluster.Spec.UnmanagedCRDs, nil)
	if err != nil && results[0].outcome.Reason == reason.AsExpected {
		results[0].outcome.Reason, results[0].outcome.Err = reason.ApplyFailed, err
	} else {
		r.behind(ctx, &results[0].outcome, "Unmanaged CRDs not released", err)
	}
	if results[0].complete {
		current = versions[0].Name
	}
	outcome = results[0].outcome
	outcome.Installed, outcome.Events, outcome.Phases = anyAvailable(results), drift, phases
	return outcome, current
}

// behindInterval is the time between attempts of an action that fails beside a rollout.
const behindInterval = time.Minute

// behind logs an error that the status does not name, because it has the reason of the rollout, and causes another attempt.
func (r *Reconciler) behind(ctx context.Context, outcome *status.Outcome, message string, err error) {
	r.log.error(ctx, message, err)
	if err != nil {
		outcome.RecheckWithin(behindInterval)
	}
}

// versionResult is the result of reconciling one version once.
type versionResult struct {
	outcome status.Outcome
	// drift holds events about reverted external changes.
	drift []status.Event
	// phases is the state of each phase; nil if it is unknown.
	phases []v1alpha1.Phase
	// complete is set when every object of the version exists and is ready.
	complete bool
	// available reports whether the version was complete before and its objects are
	// still available; nil if unknown.
	available *bool
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
func (r *Reconciler) installVersion(ctx context.Context, s state, version v1alpha1.Version) versionResult {
	rev, err := s.load(version)
	if err != nil {
		return versionResult{outcome: status.Outcome{Reason: reason.RevisionUnreadable, Err: err}}
	}
	rev.deadline = deadlineOf(version, s.Cluster.Status.Conditions, time.Now(), cmp.Or(r.ProgressTimeout, defaultProgressTimeout))
	remaining := time.Until(rev.deadline) // read before the engine reads the clock: a deadline that has passed here has passed there
	result, err := r.Engine.apply(ctx, rev)
	r.log.phases(ctx, rev, result)
	out := versionResult{
		outcome: outcomeOf(rev, result, err),
		drift:   slices.Concat(adoptionEvents(ctx, rev), r.Engine.Replacer.Events(version.Name), driftEvents(s.Cluster, version.Name, result)),
		phases:  phasesOf(rev, result),
	}
	if out.outcome.Reason == reason.RollingOut {
		out.outcome.Recheck = max(0, remaining)
	}
	if len(rev.requesting) > 0 {
		out.outcome.RecheckWithin(servingcert.RecheckInterval)
	}
	if err == nil {
		out.complete = result.IsComplete() && rev.scope != controlledOnly
		out.available = new(version.Name == s.Cluster.Status.CurrentVersion && available(result))
	}
	return out
}
