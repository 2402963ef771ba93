// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// teardown removes versions whose ConfigMap is being deleted.
type teardown struct {
	s state
	// live reads from the API server, bypassing the cache, and writer writes to it.
	live    client.Reader
	writer  client.Writer
	applier *Applier
	remover *removal.Remover
	log     *rolloutLog
	// lateWrites is the time until a write of a former leader can arrive: one that was paused during a write, and has lost its lease meanwhile, can
	// still create an object. Nothing but the ConfigMap of its version records the object, so the ConfigMap stays until then, and each pass reads
	// the objects of the version again.
	lateWrites time.Time
}

// teardown returns the removal of versions of a state.
func (r *Reconciler) teardown(s state) teardown {
	out := teardown{s: s, live: r.Live, writer: r.Client, applier: &r.Applier, remover: &r.Remover, log: &r.log}
	if r.LateWrites != nil {
		out.lateWrites = r.LateWrites()
	}
	return out
}

// deleted removes the objects of every version whose ConfigMap is being deleted.
//
// The desired and the current version are torn down only during an uninstall. A
// version between them that still controls objects is torn down once the desired
// version is installed. All other deleted ConfigMaps stay until the version
// controller has recreated them.
func (t teardown) deleted(ctx context.Context) status.Outcome {
	step := t.revision
	if t.s.Uninstalling() { // no version loses an object while the managers of another one run
		if outcome := t.each(ctx, t.stopped); outcome.Reason != reason.AsExpected {
			return outcome
		}
		step = t.removed
	}
	outcome := t.each(ctx, step)
	var failed []error
	for _, part := range t.s.revisions().orphaned() {
		failed = append(failed, removeFinalizer(ctx, t.writer, part))
	}
	if err := errors.Join(failed...); err != nil {
		outcome.Reason, outcome.Err = removalReason(err), errors.Join(outcome.Err, err)
	}
	return outcome
}

// each takes a step of the removal of every version whose ConfigMap is being deleted.
func (t teardown) each(ctx context.Context, step func(context.Context, string) (teardownProgress, error)) status.Outcome {
	outcome := status.Outcome{Reason: reason.AsExpected, Phases: map[string][]v1alpha1.Phase{}}
	var waiting []string
	var failed []error
	for _, configMap := range t.s.revisions().deleted() {
		name := configMap.Name
		progress, err := step(ctx, name)
		outcome.Events = append(outcome.Events, retainedEvents(name, progress)...)
		if progress.phases != nil {
			outcome.Phases[name] = progress.phases
		}
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("removing version %s: %w", name, err))
		case progress.keep:
		case progress.done:
			failed = append(failed, removeFinalizer(ctx, t.writer, configMap))
		default:
			waiting = append(waiting, progress.message(name))
			outcome.RecheckWithin(progress.recheck)
		}
	}
	if err := errors.Join(failed...); err != nil {
		outcome.Reason, outcome.Err = removalReason(err), err
	} else if len(waiting) > 0 {
		outcome.Reason, outcome.Message = reason.TearingDown, strings.Join(waiting, "; ")
	}
	return outcome
}

// stopped stops the managers of a version in an uninstall. While a version cannot be read, its managers may run.
func (t teardown) stopped(ctx context.Context, name string) (teardownProgress, error) {
	p, err := t.prepare(ctx, name, nil)
	if err != nil {
		return teardownProgress{}, err
	}
	return t.stop(ctx, p)
}

// removed removes the other objects of a version in an uninstall.
func (t teardown) removed(ctx context.Context, name string) (teardownProgress, error) {
	p, err := t.prepare(ctx, name, nil)
	if err != nil {
		return teardownProgress{}, err
	}
	return t.remove(ctx, p, nil)
}

// prepare returns the plan of a version whose ConfigMap is being deleted, except the parts that other versions install.
func (t teardown) prepare(ctx context.Context, name string, others sets.Set[revision.Part]) (plan, error) {
	v, err := t.s.deleted(name)
	if err != nil {
		return plan{}, err
	}
	return t.applier.prepare(ctx, v, others)
}

// stop stops the managers of a plan. The progress is keep when none runs.
func (t teardown) stop(ctx context.Context, p plan) (teardownProgress, error) {
	running, err := t.remover.Stop(ctx, p.revision(), t.s.removedSince(p.name))
	return teardownProgress{keep: running == nil, Progress: removal.Progress{Waiting: running}, recheck: podsRecheck, phases: removedPhases(p.phases, engine.Removal{})}, err
}

// revision removes the objects of a version, unless the version is still needed.
func (t teardown) revision(ctx context.Context, name string) (teardownProgress, error) {
	current := t.s.Cluster.Status
	if name == current.DesiredVersion || name == current.CurrentVersion {
		return teardownProgress{keep: true}, nil
	}
	others := t.s.otherParts(name)
	p, err := t.prepare(ctx, name, others)
	if err != nil {
		return teardownProgress{}, err
	}
	if !current.Settled() {
		switch needed, err := t.isNeeded(ctx, p); {
		case err != nil:
			return teardownProgress{}, err
		case needed:
			waiting := removal.Progress{Waiting: []string{"version " + current.DesiredVersion + " to be installed"}}
			return teardownProgress{Progress: waiting}, t.remover.EndConversions(ctx, p.revision())
		}
	}
	if stopping, err := t.stop(ctx, p); err != nil || !stopping.keep {
		return stopping, err
	}
	return t.remove(ctx, p, others)
}

// podsRecheck is the time until the pods of deleted Deployments are listed again.
const podsRecheck = time.Second

// teardownProgress is the result of one pass for a version whose ConfigMap is being deleted.
type teardownProgress struct {
	// keep is set when the ConfigMap keeps its finalizer and no object is removed.
	keep bool
	// done is set when no object of the version is left.
	done bool
	// recheck is the time until the next pass; 0 if an event causes it.
	recheck time.Duration
	removal.Progress
	// phases is the state of each phase.
	phases []v1alpha1.Phase
}

// message returns the message for a version that is being removed.
func (p teardownProgress) message(version string) string {
	if len(p.Waiting) == 0 {
		return "removing version " + version
	}
	return fmt.Sprintf("removing version %s: waiting for %s", version, text.First(10, p.Waiting))
}

// removeFinalizer removes our finalizer, so that the ConfigMap can be deleted.
func removeFinalizer(ctx context.Context, writer client.Writer, configMap *corev1.ConfigMap) error {
	before := configMap.DeepCopy()
	configMap.Finalizers = slices.DeleteFunc(slices.Clone(configMap.Finalizers), func(f string) bool { return f == v1alpha1.TeardownFinalizer })
	if err := writer.Patch(ctx, configMap, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of revision ConfigMap %s: %w", configMap.Name, err)
	}
	log.FromContext(ctx).Info("Removed the finalizer of a revision ConfigMap", "version", configMap.Name)
	return nil
}

// remove removes the objects of a version whose managers are stopped.
func (t teardown) remove(ctx context.Context, p plan, others sets.Set[revision.Part]) (out teardownProgress, err error) {
	out = teardownProgress{done: true}
	if len(p.phases) > 0 {
		removed, err := t.remover.Remove(ctx, p.revision(), p.unmanaged)
		if err != nil {
			return teardownProgress{}, err
		}
		t.log.teardown(ctx, p.name, removed)
		out = teardownProgress{done: removed.Complete, Progress: removed, phases: removedPhases(p.phases, removed.Removal)}
	}
	if left := time.Until(t.lateWrites); out.done && left > 0 {
		out.done, out.recheck, out.Waiting = false, left, []string{"late writes of a former leader"}
	}
	if !out.done {
		return out, nil
	}
	if !others.Has(revision.Part{Owner: p.owner}) {
		err = t.remover.RemoveRequirements(ctx, p.owner)
	}
	return out, errors.Join(err, t.remover.DeleteRecreatedRoles(ctx, p.revision()), t.applier.forget(ctx, p))
}

// deleted reads a version whose ConfigMap is being deleted.
func (s state) deleted(name string) (version, error) {
	v, err := s.read(name)
	v.unmanaged = s.Cluster.Spec.UnmanagedCRDs
	if entry := s.Cluster.Status.Version(name); entry != nil {
		v.unmanaged = union(v.unmanaged, entry.UnmanagedCRDs)
	}
	return v, err
}

// isNeeded reports whether a version controls objects that another version has, or that may belong to a provider that works. Until the desired version is
// installed, such objects of an older version may be the only ones of a provider. It decides on live reads, because the ConfigMap is the only
// record of these objects.
func (t teardown) isNeeded(ctx context.Context, p plan) (bool, error) {
	controlled, err := t.applier.Engine.Controlled(ctx, p.revision(), t.live)
	if err != nil || len(controlled.Phases) == 0 {
		return false, err
	}
	number, err := revision.Number(p.name)
	if err != nil {
		return false, err
	}
	reported := t.s.Cluster.Status
	if current := reported.Version(reported.CurrentVersion); current != nil && number <= current.Revision {
		return true, nil // it was complete: the objects can belong to a provider that works
	}
	own := revision.ByIdentity(controlled.Phases)
	for _, entry := range reported.Versions {
		if entry.Name == p.name {
			continue
		}
		other, err := t.applier.plans.stored(t.s, entry)
		if err != nil {
			return false, err
		}
		for _, obj := range revision.Objects(other.phases) {
			if own[object.IdentityOf(obj)] != nil {
				return true, nil
			}
		}
	}
	return false, nil
}

// withoutControllers is what the instances of retained CRDs lack once their provider is removed.
const withoutControllers = "until a provider is installed again, no controller reconciles the instances: a deleted instance exists until its finalizers are removed"

// retainedEvents returns the event about CRDs that a removal leaves in the cluster.
func retainedEvents(version string, progress teardownProgress) []status.Event {
	message := "version " + version + " is being removed"
	if len(progress.Retained) > 0 {
		message += "; retained CRDs: " + strings.Join(progress.Retained, ", ")
	}
	if len(progress.Deleted) > 0 {
		message += "; CRDs that another client has deleted, and that exist until their instances are gone: " + strings.Join(progress.Deleted, ", ")
	}
	if len(progress.Retained) == 0 && len(progress.Deleted) == 0 {
		return nil
	}
	return []status.Event{{Reason: status.CRDsKept, Warning: true, Message: message + "; " + withoutControllers}}
}
