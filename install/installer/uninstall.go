// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// withdrawAndUninstall withdraws the installer's own object before it removes the versions.
func (r *Reconciler) withdrawAndUninstall(ctx context.Context, s state) (reconcile.Result, error) {
	if r.Withdraw != nil {
		if err := r.Withdraw(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	return r.uninstall(ctx, s)
}

// uninstall removes every version and reports the progress.
func (r *Reconciler) uninstall(ctx context.Context, s state) (reconcile.Result, error) {
	outcome := r.teardown(ctx, s)
	outcome.Installed = new(false)
	remaining := s.versionNames()
	switch {
	case outcome.Err != nil:
	case outcome.Reason == reason.TearingDown:
		outcome.Reason = reason.Uninstalling
	case len(remaining) > 0:
		outcome.Reason, outcome.Message = reason.Uninstalling, "waiting for revision ConfigMap "+text.First(2, remaining)+" to be deleted"
	case s.Cluster.Name != "":
		outcome.Reason, outcome.Message = reason.Uninstalling, fmt.Sprintf("waiting for ClusterAPI %q to be deleted", v1alpha1.ClusterAPIName)
	default:
		retained, err := retainedCRDs(ctx, r.Engine.Live)
		if err != nil {
			return reconcile.Result{}, err
		}
		setUninstalled(&outcome, retained)
	}
	return r.report(ctx, s.Cluster, outcome, "")
}

// setUninstalled sets the outcome of a finished uninstall, with the retained CRDs.
func setUninstalled(outcome *status.Outcome, retained []string) {
	outcome.Reason, outcome.Related = reason.Uninstalled, relatedAfterUninstall(retained)
	outcome.Message = fmt.Sprintf("nothing is installed, because ClusterAPI %q does not exist", v1alpha1.ClusterAPIName)
	if len(retained) > 0 {
		outcome.Message += "; CRDs retained because of their instances: " + strings.Join(retained, ", ")
	}
}

// relatedAfterUninstall returns the related objects when only these CRDs are left.
func relatedAfterUninstall(crds []string) []configv1.ObjectReference {
	return slices.DeleteFunc(status.RelatedObjects(nil, crds), func(ref configv1.ObjectReference) bool {
		return ref.Group == v1alpha1.Prefix
	})
}
