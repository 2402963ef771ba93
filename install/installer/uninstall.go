// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// A finalizer preserves the deleted ClusterAPI object until everything is removed: its spec
// lists the unmanaged CRDs, so the uninstall does not delete them, and its conditions
// report what the uninstall waits for. docs/decisions.md has the
// alternatives.

// hold adds the finalizer to the ClusterAPI object, unless no version exists. It is called
// before the first object of a version is written.
func (r *Reconciler) hold(ctx context.Context, cluster *v1alpha1.ClusterAPI) error {
	if len(cluster.Status.Versions) == 0 || controllerutil.ContainsFinalizer(cluster, v1alpha1.UninstallFinalizer) {
		return nil
	}
	return setFinalizer(ctx, r.Client, cluster, controllerutil.AddFinalizer)
}

// setFinalizer adds or removes the finalizer of the ClusterAPI object with change, if the object has not changed since it was read: a report over
// it would take back the status that the version controller has written since. It updates the metadata of cluster.
func setFinalizer(ctx context.Context, writer client.Writer, cluster *v1alpha1.ClusterAPI, change func(client.Object, string) bool) error {
	changed := cluster.DeepCopy()
	if !change(changed, v1alpha1.UninstallFinalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(cluster, client.MergeFromWithOptimisticLock{})
	if err := writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("writing finalizer %s of ClusterAPI %q: %w", v1alpha1.UninstallFinalizer, cluster.Name, err)
	}
	cluster.Finalizers, cluster.ResourceVersion = changed.Finalizers, changed.ResourceVersion
	return nil
}

// uninstall removes every version and reports the progress.
func (r *Reconciler) uninstall(ctx context.Context, s state) (reconcile.Result, error) {
	deleted := s.deleteRevisions(ctx, r.Client)
	outcome := r.teardown(s).deleted(ctx)
	outcome.Installed = new(false)
	if deleted != nil {
		outcome.Reason, outcome.Err = reason.ApplyFailed, errors.Join(deleted, outcome.Err)
	}
	remaining := s.revisions().versions()
	switch {
	case apierrors.IsForbidden(outcome.Err):
		outcome.Reason = reason.UninstallBlocked
	case outcome.Err != nil:
	case outcome.Reason == reason.TearingDown:
		outcome.Reason = reason.Uninstalling
		outcome = limitUninstall(outcome, s.Cluster, time.Now(), r.ProgressTimeout)
	case !s.orphaning() && len(s.revisions().ownedBy(s.Cluster)) == 0 && controllerutil.ContainsFinalizer(s.Cluster, v1alpha1.UninstallFinalizer):
		log.FromContext(ctx).Info("Removing the finalizer of the ClusterAPI object", "orphaned", remaining)
		record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespaces.Operator, Name: history.ConfigMapName}}
		if err := r.Client.Delete(ctx, record); client.IgnoreNotFound(err) != nil { // the garbage collector keeps it if the CRD is deleted soon
			return reconcile.Result{}, fmt.Errorf("deleting the history: %w", err)
		}
		return reconcile.Result{}, client.IgnoreNotFound(setFinalizer(ctx, r.Client, s.Cluster, controllerutil.RemoveFinalizer))
	case len(remaining) > 0:
		outcome.Reason, outcome.Message = reason.Uninstalling, "waiting for revision ConfigMap "+text.First(2, remaining)+" to be deleted"
	case s.Cluster.Name != "":
		outcome.Reason, outcome.Message = reason.Uninstalling, fmt.Sprintf("waiting for ClusterAPI %q to be deleted", v1alpha1.ClusterAPIName)
	default:
		retained, err := removal.Retained(ctx, r.Live)
		if err != nil {
			return reconcile.Result{}, err
		}
		setUninstalled(&outcome, s.namespaces, retained)
	}
	return r.report(ctx, s.Cluster, outcome, "")
}

// deleteRevisions deletes the revision ConfigMaps of a deleted ClusterAPI object. The garbage collector deletes them only
// after the object. ConfigMaps without this owner stay: a deletion with --cascade=orphan leaves them.
func (s state) deleteRevisions(ctx context.Context, writer client.Writer) error {
	if s.orphaning() || s.Cluster.Name == "" {
		return nil
	}
	var failed []error
	for _, configMap := range s.revisions().ownedBy(s.Cluster) {
		if !configMap.DeletionTimestamp.IsZero() {
			continue
		}
		if err := writer.Delete(ctx, configMap, client.Preconditions{UID: &configMap.UID}); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("deleting revision ConfigMap %s: %w", configMap.Name, err))
		} else { // the managers of all versions are stopped in this pass
			configMap.DeletionTimestamp = new(metav1.Now())
		}
	}
	return errors.Join(failed...)
}

// limitUninstall makes an uninstall without progress blocked. The last progress is the last change of a phase, or the deletion of
// the ClusterAPI object. Both times are in the API, so a restart does not extend the limit.
func limitUninstall(outcome status.Outcome, cluster *v1alpha1.ClusterAPI, now time.Time, timeout time.Duration) status.Outcome {
	if cluster.DeletionTimestamp.IsZero() {
		return outcome
	}
	last := cluster.DeletionTimestamp.Time
	for _, version := range cluster.Status.Versions {
		for _, phase := range version.Phases {
			if phase.Since.After(last) {
				last = phase.Since.Time
			}
		}
	}
	limit := status.Inertia
	if timeout > 0 {
		limit = min(limit, timeout)
	}
	if left := last.Add(limit).Sub(now); left > 0 {
		outcome.RecheckWithin(left)
		return outcome
	}
	outcome.Reason = reason.UninstallBlocked
	outcome.Message = "the uninstall makes no progress: " + outcome.Message
	return outcome
}

// pausedUninstall is the outcome while the ClusterAPI object is deleted and spec.installerMode is Paused.
func (r *Reconciler) pausedUninstall(ctx context.Context, s state) status.Outcome {
	outcome := r.pausedOutcome(ctx, s)
	outcome.Reason = reason.UninstallBlocked
	outcome.Message = "the ClusterAPI object is deleted, but the installer is paused; " + outcome.Message
	return outcome
}

// setUninstalled sets the outcome of a finished uninstall, with the retained CRDs.
func setUninstalled(outcome *status.Outcome, of v1alpha1.Namespaces, retained []string) {
	outcome.Reason, outcome.Related = reason.Uninstalled, relatedAfterUninstall(of, retained)
	outcome.Message = fmt.Sprintf("nothing is installed, because ClusterAPI %q does not exist", v1alpha1.ClusterAPIName)
	if len(retained) > 0 {
		outcome.Message += "; CRDs retained because of their instances: " + strings.Join(retained, ", ") + "; " + withoutControllers
	}
}

// relatedAfterUninstall returns the related objects when only these CRDs are left.
func relatedAfterUninstall(of v1alpha1.Namespaces, crds []string) []configv1.ObjectReference {
	return slices.DeleteFunc(status.RelatedObjects(of, nil, crds), func(ref configv1.ObjectReference) bool {
		return ref.Group == v1alpha1.Prefix
	})
}
