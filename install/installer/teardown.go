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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// teardown removes the objects of every version whose ConfigMap is being deleted.
//
// The desired and the current version are torn down only during an uninstall. A
// version between them that still controls objects is torn down once the desired
// version is installed. All other deleted ConfigMaps stay until the version
// controller has recreated them.
func (r *Reconciler) teardown(ctx context.Context, s state) status.Outcome {
	outcome := status.Outcome{Reason: reason.AsExpected, Phases: map[string][]v1alpha1.Phase{}}
	var waiting []string
	var failed []error
	for _, configMap := range s.deletedRevisions() {
		name := configMap.Name
		progress, err := r.teardownRevision(ctx, s, name)
		outcome.Events = append(outcome.Events, retainedEvents(name, progress)...)
		if progress.phases != nil {
			outcome.Phases[name] = progress.phases
		}
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("removing version %s: %w", name, err))
		case progress.keep:
		case progress.done:
			failed = append(failed, r.removeFinalizer(ctx, configMap))
		default:
			waiting = append(waiting, progress.message(name))
		}
	}
	for _, part := range s.orphanedParts() {
		failed = append(failed, r.removeFinalizer(ctx, part))
	}
	if err := errors.Join(failed...); err != nil {
		outcome.Reason, outcome.Err = reason.ApplyFailed, err
	} else if len(waiting) > 0 {
		outcome.Reason, outcome.Message = reason.TearingDown, strings.Join(waiting, "; ")
	}
	return outcome
}

// teardownRevision removes the objects of a version whose ConfigMap is being deleted,
// unless the version is still needed.
func (r *Reconciler) teardownRevision(ctx context.Context, s state, name string) (teardownProgress, error) {
	current := s.Cluster.Status
	switch {
	case s.Uninstalling():
		return r.teardownVersion(ctx, s, name)
	case name == current.DesiredVersion, name == current.CurrentVersion:
		return teardownProgress{keep: true}, nil
	case s.handedOver(name):
		return teardownProgress{done: true}, nil
	case !current.Settled():
		return r.teardownWithoutObjects(ctx, s, name)
	default:
		return r.teardownVersion(ctx, s, name)
	}
}

// teardownProgress is the result of one pass that removes a version.
type teardownProgress struct {
	// keep is set when the ConfigMap keeps its finalizer and no object is removed.
	keep bool
	// done is set when no object of the version is left.
	done bool
	// waiting lists the objects that still exist, with their finalizers.
	waiting []string
	// retained lists the CRDs that this pass left in the cluster, with the reason.
	retained []string
	// phases is the state of each phase.
	phases []v1alpha1.Phase
}

// message returns the message for a version that is being removed.
func (p teardownProgress) message(version string) string {
	if len(p.waiting) == 0 {
		return "removing version " + version
	}
	return fmt.Sprintf("removing version %s: waiting for %s", version, text.First(10, p.waiting))
}

// removeFinalizer removes our finalizer, so that the ConfigMap can be deleted.
func (r *Reconciler) removeFinalizer(ctx context.Context, configMap *corev1.ConfigMap) error {
	before := configMap.DeepCopy()
	configMap.Finalizers = slices.DeleteFunc(slices.Clone(configMap.Finalizers), func(f string) bool { return f == v1alpha1.TeardownFinalizer })
	if err := r.Client.Patch(ctx, configMap, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of revision ConfigMap %s: %w", configMap.Name, err)
	}
	log.FromContext(ctx).Info("Removed the finalizer of a revision ConfigMap", "version", configMap.Name)
	return nil
}

// teardownVersion removes the objects of a version.
func (r *Reconciler) teardownVersion(ctx context.Context, s state, name string) (teardownProgress, error) {
	rev, err := s.read(name)
	if err != nil {
		return teardownProgress{}, err
	}
	rev.unmanaged = s.Cluster.Spec.UnmanagedCRDs
	if version := s.Cluster.Status.Version(name); version != nil {
		rev.unmanaged = union(rev.unmanaged, version.UnmanagedCRDs)
	}
	progress, err := r.Engine.teardown(ctx, rev)
	if err != nil {
		return teardownProgress{}, err
	}
	r.log.teardown(ctx, name, progress)
	if progress.done {
		err = errors.Join(r.Engine.removeRequirements(ctx, rev), r.Engine.deleteRecreatedRoles(ctx, rev), r.Engine.forget(ctx, rev))
	}
	return progress, err
}

// teardownWithoutObjects removes a version that controls no objects. Until the
// desired version is installed, the objects of an older version may be the only
// ones of a provider. It decides on live reads, because the ConfigMap is the only
// record of these objects.
func (r *Reconciler) teardownWithoutObjects(ctx context.Context, s state, name string) (teardownProgress, error) {
	rev, err := s.read(name)
	if err != nil {
		return teardownProgress{}, err
	}
	if err := r.Engine.prepare(ctx, rev); err != nil {
		return teardownProgress{}, err
	}
	if err := r.Engine.keepControlled(ctx, rev, r.Live); err != nil {
		return teardownProgress{}, err
	}
	if len(rev.phases) > 0 {
		return teardownProgress{waiting: []string{"version " + s.Cluster.Status.DesiredVersion + " to be installed"}}, nil
	}
	return r.teardownVersion(ctx, s, name)
}

// teardown deletes the objects that only this revision controls, last phase
// first. It retains unmanaged CRDs and CRDs that have instances.
func (e *Engine) teardown(ctx context.Context, rev *loadedRevision) (progress teardownProgress, err error) {
	if err := e.prepare(ctx, rev); err != nil {
		return teardownProgress{}, err
	}
	ours := func(crd *unstructured.Unstructured) bool { return e.Owners.IsController(ownerOf(rev.owner), crd) }
	if err := e.releaseCRDs(ctx, rev.unmanaged, ours); err != nil {
		return teardownProgress{}, err
	}
	defer func() { err = errors.Join(err, e.withdrawInstances(context.WithoutCancel(ctx))) }()
	for attempt := 1; ; attempt++ {
		progress, err = e.teardownOnce(ctx, rev)
		if !errors.As(err, new(*inUseError)) || attempt == maxAttempts {
			return progress, err
		}
	}
}

// maxAttempts limits how often a teardown pass is repeated because a CRD got instances
// after the check.
const maxAttempts = 5

// teardownOnce deletes the objects of a revision. It retains CRDs that have instances,
// and returns an *inUseError if one gets an instance before it is deleted.
func (e *Engine) teardownOnce(ctx context.Context, rev *loadedRevision) (progress teardownProgress, err error) {
	guard := &deletionGuard{engine: e, version: rev.name}
	options, retained, err := e.retain(ctx, rev, guard)
	if err != nil {
		return teardownProgress{}, err
	}
	defer func() { err = errors.Join(err, e.liftDeletionGuard(context.WithoutCancel(ctx))) }()
	options = append(options, boxcutter.WithAggregatePhaseTeardownErrors(), engineOptions)
	result, err := e.Revisions.Teardown(ctx, e.packedRevision(rev, reversed(rev.phases)), options...)
	if err != nil {
		return teardownProgress{}, err
	}
	if err := e.unmarkRetained(ctx, rev, result, retained); err != nil {
		return teardownProgress{}, err
	}
	if err := e.endConversions(ctx, rev, result); err != nil {
		return teardownProgress{}, err
	}
	return e.progressOf(ctx, rev, result, retained)
}

// progressOf describes the objects that remain after a pass. retained holds the
// retained CRDs by phase; they count once their phase is reached.
func (e *Engine) progressOf(ctx context.Context, rev *loadedRevision, result machinery.RevisionTeardownResult, retained map[string][]string) (teardownProgress, error) {
	out := teardownProgress{done: result.IsComplete(), phases: removedPhasesOf(rev, result)}
	for _, phase := range result.GetPhases() {
		out.retained = append(out.retained, retained[phase.GetName()]...)
		for _, ref := range phase.Waiting() {
			state, err := e.deletionState(ctx, ref)
			if err != nil {
				return out, err
			}
			out.waiting = append(out.waiting, describeRef(ref)+state)
		}
	}
	return out, nil
}

// deletionState returns the time of an object's deletion and the finalizers that
// block it; empty if the object is gone, or the cache has not seen its deletion yet.
func (e *Engine) deletionState(ctx context.Context, ref types.ObjectRef) (string, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.GroupVersionKind)
	err := e.Reader.Get(ctx, ref.ObjectKey, object)
	if apierrors.IsNotFound(err) || err == nil && object.GetDeletionTimestamp() == nil {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", describeRef(ref), err)
	}
	return " (" + deletionState(object) + ")", nil
}

// deletionState returns the time of an object's deletion and its finalizers.
func deletionState(object client.Object) string {
	text := "deleted at " + object.GetDeletionTimestamp().UTC().Format(time.RFC3339)
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		text += ", blocked by finalizer " + strings.Join(finalizers, " and ")
	}
	return text
}

// withoutControllers is what the instances of retained CRDs lack once their provider is removed.
const withoutControllers = "until a provider is installed again, no controller reconciles the instances: a deleted instance exists until its finalizers are removed"

// retainedEvents returns the event about CRDs that stay in the cluster.
func retainedEvents(version string, progress teardownProgress) []status.Event {
	if len(progress.retained) == 0 {
		return nil
	}
	return []status.Event{{
		Reason: status.CRDsKept, Warning: true,
		Message: "version " + version + " is being removed; retained CRDs: " + strings.Join(progress.retained, ", ") + "; " + withoutControllers,
	}}
}
