// SPDX-License-Identifier: Apache-2.0

// Package installer is the installer controller: it makes the cluster match the
// desired version.
//
// Each run starts with the newest version. Its objects are applied phase by
// phase; a phase begins when all objects of the one before it are ready. When
// the newest version is complete it becomes the current one. Until then the
// next older version is looked after too, so that a release that does not come
// up never leaves running providers alone. Revision ConfigMaps that are being
// deleted have their objects removed, the last phase first.
//
// One run handles all versions, because they hand objects to each other.
package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// Reconciler is the installer controller.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Reporter writes the outcome.
	Reporter *status.Reporter
	// Engine applies and removes the objects of revisions.
	Engine *Engine

	journal journal
}

// Reconcile brings the cluster one step nearer to the desired version.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	configMaps := &corev1.ConfigMapList{}
	if err := r.Client.List(ctx, configMaps, client.InNamespace(v1alpha1.OperatorNamespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing ConfigMaps in %s: %w", v1alpha1.OperatorNamespace, err)
	}
	cluster, err := r.cluster(ctx, len(leaving(configMaps.Items)) > 0)
	if err != nil {
		return reconcile.Result{}, err
	}
	world := world{cluster: cluster, configMaps: configMaps.Items}
	if cluster.Spec.InstallerMode == v1alpha1.Paused {
		return reconcile.Result{}, r.report(ctx, cluster, r.review(ctx, world), "")
	}
	r.journal.say(ctx, "Paused", "")
	if world.uninstalling() {
		return r.uninstall(ctx, world)
	}
	outcome, current := r.install(ctx, world)
	left := r.teardown(ctx, world)
	if outcome.Reason == status.AsExpected || world.uninstalling() && left.Reason != status.AsExpected {
		outcome.Reason, outcome.Message, outcome.Err = left.Reason, left.Message, left.Err
	}
	outcome.Events, outcome.Again = append(outcome.Events, left.Events...), left.Again
	outcome.Phases = merge(outcome.Phases, left.Phases)
	if err := r.report(ctx, cluster, outcome, current); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: outcome.LookAgain()}, outcome.Retry()
}

// world is what a run has read.
type world struct {
	cluster    *v1alpha1.ClusterAPI
	configMaps []corev1.ConfigMap
}

// uninstalling says that the ClusterAPI object is gone or about to go, and with it
// everything that is installed.
func (w world) uninstalling() bool {
	return w.cluster.Name == "" || !w.cluster.DeletionTimestamp.IsZero()
}

// cluster reads the ClusterAPI object; one without a name if there is none. It is
// asked for past the cache when revision ConfigMaps are being deleted, because it
// tells whether they must be written again or their objects removed.
func (r *Reconciler) cluster(ctx context.Context, live bool) (*v1alpha1.ClusterAPI, error) {
	reader := client.Reader(r.Client)
	if live {
		reader = r.Live
	}
	cluster := &v1alpha1.ClusterAPI{}
	err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
	if apierrors.IsNotFound(err) {
		return &v1alpha1.ClusterAPI{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	return cluster, nil
}

// report writes the outcome, and the current version if there is a new one.
func (r *Reconciler) report(ctx context.Context, cluster *v1alpha1.ClusterAPI, outcome status.Outcome, current string) error {
	r.journal.recordFailure(ctx, outcome)
	if cluster.Name == "" {
		return r.Reporter.ReportWithout(ctx, outcome)
	}
	_, err := r.Reporter.Report(ctx, status.Installer, outcome, func(s *v1alpha1.ClusterAPIStatus) {
		if current != "" && s.Version(current) != nil {
			s.CurrentVersion = current
		}
	})
	return err
}

// install reconciles the versions, the newest first, until one is complete. It
// returns the outcome of the newest one, and its name if it is complete.
func (r *Reconciler) install(ctx context.Context, world world) (outcome status.Outcome, current string) {
	versions := slices.Clone(world.cluster.Status.Versions)
	if len(versions) == 0 {
		return status.Outcome{Reason: status.NoRevision, Message: "waiting for the first version to be decided"}, ""
	}
	slices.SortFunc(versions, func(a, b v1alpha1.Version) int { return cmp.Compare(b.Revision, a.Revision) })
	var results []versionResult
	var drift []status.Event
	phases := map[string][]v1alpha1.Phase{}
	for _, version := range versions {
		results = append(results, r.installVersion(ctx, world, version))
		drift = append(drift, results[len(results)-1].drift...)
		if found := results[len(results)-1].phases; found != nil {
			phases[version.Name] = found
		}
		if results[len(results)-1].complete || version.Name == world.cluster.Status.CurrentVersion {
			break
		}
	}
	if err := r.Engine.release(ctx, world.cluster.Spec.UnmanagedCRDs, nil); err != nil && results[0].outcome.Reason == status.AsExpected {
		results[0].outcome.Reason, results[0].outcome.Err = status.ApplyFailed, err
	}
	if results[0].complete {
		current = versions[0].Name
	}
	outcome = results[0].outcome
	outcome.Installed, outcome.Events, outcome.Phases = installed(results), drift, phases
	return outcome, current
}

// versionResult is what became of one version in one run.
type versionResult struct {
	outcome status.Outcome
	// drift tells of objects that were put right.
	drift []status.Event
	// phases say where each phase stands; nil where that could not be found out.
	phases []v1alpha1.Phase
	// complete says that every object of the version is there and ready.
	complete bool
	// works is whether the version was once complete and what it has still works;
	// nil where that could not be found out.
	works *bool
}

// installed says whether any version works; nil where that could not be found out.
func installed(results []versionResult) *bool {
	known := true
	for _, result := range results {
		if result.complete || result.works != nil && *result.works {
			return new(true)
		}
		known = known && result.works != nil
	}
	if !known {
		return nil
	}
	return new(false)
}

// installVersion reconciles one version.
func (r *Reconciler) installVersion(ctx context.Context, world world, version v1alpha1.Version) versionResult {
	rev, err := r.load(world, version)
	if err != nil {
		return versionResult{outcome: status.Outcome{Reason: status.RevisionUnreadable, Err: err}}
	}
	result, err := r.Engine.apply(ctx, rev)
	r.journal.record(ctx, rev, result)
	drift, phases := driftEvents(world.cluster, version.Name, result), phasesOf(rev, result)
	if err != nil {
		return versionResult{outcome: outcomeOf(rev, result, err), drift: drift, phases: phases}
	}
	return versionResult{
		drift: drift, phases: phases,
		outcome:  outcomeOf(rev, result, nil),
		complete: result.IsComplete() && rev.scope != held,
		works:    new(version.Name == world.cluster.Status.CurrentVersion && works(result)),
	}
}

// teardown removes the objects of every version whose ConfigMap is being deleted.
//
// The desired and the current version are only torn down with everything, when the
// ClusterAPI object goes; one between them that still has objects, when the desired one has taken its place.
// Otherwise their ConfigMaps stay, deleted or not, until the
// version controller has let them go and written them again.
func (r *Reconciler) teardown(ctx context.Context, world world) status.Outcome {
	outcome := status.Outcome{Reason: status.AsExpected, Phases: map[string][]v1alpha1.Phase{}}
	var waiting []string
	var failed []error
	for _, configMap := range leaving(world.configMaps) {
		left, err := removal{done: true}, error(nil)
		switch name := configMap.Name; {
		case world.uninstalling():
			left, err = r.teardownVersion(ctx, world, name)
		case name == world.cluster.Status.DesiredVersion, name == world.cluster.Status.CurrentVersion:
			continue
		case world.continued(name): // a newer version has all of its objects
		case !world.cluster.Status.Settled():
			left, err = r.teardownEmpty(ctx, world, name)
		default:
			left, err = r.teardownVersion(ctx, world, name)
		}
		outcome.Events = append(outcome.Events, keptEvents(configMap.Name, left)...)
		outcome.Again = sooner(outcome.Again, left.again)
		if left.phases != nil {
			outcome.Phases[configMap.Name] = left.phases
		}
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("removing version %s: %w", configMap.Name, err))
		case !left.done:
			waiting = append(waiting, describeRemoval(configMap.Name, left))
		default:
			failed = append(failed, r.release(ctx, configMap))
		}
	}
	for _, part := range leftover(world.configMaps) {
		failed = append(failed, r.release(ctx, part))
	}
	if err := errors.Join(failed...); err != nil {
		outcome.Reason, outcome.Err = status.ApplyFailed, err
	} else if len(waiting) > 0 {
		outcome.Reason, outcome.Message = status.TearingDown, strings.Join(waiting, "; ")
	}
	return outcome
}

// release removes our finalizer, so that the ConfigMap can go.
func (r *Reconciler) release(ctx context.Context, configMap *corev1.ConfigMap) error {
	before := configMap.DeepCopy()
	configMap.Finalizers = slices.DeleteFunc(slices.Clone(configMap.Finalizers), func(f string) bool { return f == v1alpha1.TeardownFinalizer })
	if err := r.Client.Patch(ctx, configMap, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing revision ConfigMap %s: %w", configMap.Name, err)
	}
	log.FromContext(ctx).Info("Released a revision ConfigMap", "version", configMap.Name)
	return nil
}

// teardownVersion removes the objects of a version.
func (r *Reconciler) teardownVersion(ctx context.Context, world world, name string) (removal, error) {
	rev, err := read(world.configMaps, name)
	if err != nil {
		return removal{}, err
	}
	rev.unmanaged = world.cluster.Spec.UnmanagedCRDs
	if version := world.cluster.Status.Version(name); version != nil {
		rev.unmanaged = union(rev.unmanaged, version.UnmanagedCRDs)
	}
	left, err := r.Engine.remove(ctx, rev)
	if err != nil {
		return removal{}, err
	}
	r.journal.recordRemoval(ctx, name, left)
	if left.done {
		err = errors.Join(r.Engine.removeRequirements(ctx, rev), r.Engine.sweep(ctx, rev), r.Engine.forget(ctx, rev))
	}
	return left, err
}

// teardownEmpty lets a version go if it has nothing in the cluster. Until the desired version is installed, what
// an older one has may be all that there is of a provider.
func (r *Reconciler) teardownEmpty(ctx context.Context, world world, name string) (removal, error) {
	rev, err := read(world.configMaps, name)
	if err != nil {
		return removal{}, err
	}
	if err := r.Engine.prepare(ctx, rev); err != nil {
		return removal{}, err
	}
	if err := r.Engine.hold(ctx, rev); err != nil {
		return removal{}, err
	}
	if len(rev.phases) > 0 {
		return removal{waiting: []string{"version " + world.cluster.Status.DesiredVersion + " to be installed"}}, nil
	}
	return r.teardownVersion(ctx, world, name)
}

// leaving are the revision ConfigMaps that are being deleted and wait for us.
func leaving(configMaps []corev1.ConfigMap) []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for i := range configMaps {
		c := &configMaps[i]
		if !c.DeletionTimestamp.IsZero() && slices.Contains(c.Finalizers, v1alpha1.TeardownFinalizer) && c.Labels[v1alpha1.RevisionPartLabel] == "" {
			out = append(out, c)
		}
	}
	return out
}

// union returns the names in either list, sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
