// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// uninstall removes every version, and reports how far that is.
func (r *Reconciler) uninstall(ctx context.Context, world world) (reconcile.Result, error) {
	outcome := r.teardown(ctx, world)
	outcome.Installed = new(false)
	left := versionsOf(world.configMaps)
	switch {
	case outcome.Err != nil:
	case outcome.Reason == status.TearingDown:
		outcome.Reason = status.Uninstalling
	case len(left) > 0:
		outcome.Reason, outcome.Message = status.Uninstalling, "waiting for revision ConfigMap "+shorten(left)+" to be deleted"
	case world.cluster.Name != "":
		outcome.Reason, outcome.Message = status.Uninstalling, fmt.Sprintf("waiting for ClusterAPI %q to be gone", v1alpha1.ClusterAPIName)
	default:
		kept, err := r.keptCRDs(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		describeUninstalled(&outcome, kept)
	}
	if err := r.report(ctx, world.cluster, outcome, ""); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: outcome.LookAgain()}, outcome.Retry()
}

// describeUninstalled says that nothing is left, and which CRDs were kept.
func describeUninstalled(outcome *status.Outcome, kept []string) {
	outcome.Reason, outcome.Related = status.Uninstalled, relatedOf(kept)
	outcome.Message = fmt.Sprintf("nothing is installed, because there is no ClusterAPI %q", v1alpha1.ClusterAPIName)
	if len(kept) > 0 {
		outcome.Message += "; CRDs kept because of their instances: " + strings.Join(kept, ", ")
	}
}

// relatedOf is what a support archive must hold when nothing but these CRDs is left.
func relatedOf(crds []string) []configv1.ObjectReference {
	return slices.DeleteFunc(related(&revisionObjects{unmanaged: crds}), func(ref configv1.ObjectReference) bool {
		return ref.Group == v1alpha1.Prefix
	})
}

// versionsOf are the names of the versions of which there are ConfigMaps, sorted.
func versionsOf(configMaps []corev1.ConfigMap) []string {
	var names []string
	for _, configMap := range configMaps {
		if name := configMap.Labels[v1alpha1.RevisionLabel]; name != "" {
			names = append(names, name)
		}
	}
	return union(names, nil)
}

// keptCRDs are the names of the CRDs that wait in the cluster to be taken over
// again, sorted: those that stayed when their version was removed. Their mark is in
// the cluster, so a process that has just started knows them too.
func (r *Reconciler) keptCRDs(ctx context.Context) ([]string, error) {
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: crdKind + "List"})
	if err := r.Live.List(ctx, crds); err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	var names []string
	for i := range crds.Items {
		if allowsAdoption(&crds.Items[i]) {
			names = append(names, crds.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
