// SPDX-License-Identifier: Apache-2.0

package officialapi

import (
	"context"
	"fmt"
	"slices"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	installrevision "github.com/capi-installer/capi-installer/install/revision"
)

// Reconciler writes the status of the official object.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Namespace is the namespace of the installer.
	Namespace string
	// Source reads the official object.
	Source *Source
}

// Reconcile applies the status of the official object if it differs.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	official, err := r.Source.Get(ctx)
	if official == nil || err != nil {
		return reconcile.Result{}, err
	}
	cluster := &v1alpha1.ClusterAPI{}
	err = r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	if apierrors.IsNotFound(err) || !cluster.DeletionTimestamp.IsZero() {
		cluster = &v1alpha1.ClusterAPI{} // nothing is installed, or soon will be
	}
	if cluster.Name == "" && !applied(official) || cluster.Name != "" && len(cluster.Status.Versions) == 0 {
		return reconcile.Result{}, nil
	}
	status, err := Status(official, cluster, r.contents(ctx))
	if err != nil || equality.Semantic.DeepEqual(status, official.Status) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.apply(ctx, status)
}

// applied reports whether the installer owns fields of the status.
func applied(official *operatorv1alpha1.ClusterAPI) bool {
	return slices.ContainsFunc(official.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == FieldOwner })
}

// contents returns a function that reads versions from their revision ConfigMaps.
func (r *Reconciler) contents(ctx context.Context) Contents {
	return func(version string) (operand.Set, error) {
		configMaps := &corev1.ConfigMapList{}
		if err := r.Client.List(ctx, configMaps, client.InNamespace(r.Namespace)); err != nil {
			return operand.Set{}, fmt.Errorf("listing revision ConfigMaps: %w", err)
		}
		stored, err := installrevision.FromConfigMaps(version, configMaps.Items)
		if err != nil {
			return operand.Set{}, err
		}
		return stored.Decode()
	}
}

func (r *Reconciler) apply(ctx context.Context, status operatorv1alpha1.ClusterAPIStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", Name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	object.SetGroupVersionKind(operatorv1alpha1.GroupVersion.WithKind("ClusterAPI"))
	object.SetName(v1alpha1.ClusterAPIName)
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", Name, err)
	}
	log.FromContext(ctx).Info("Updated the status of OpenShift's own ClusterAPI", "current", status.CurrentRevision, "desired", status.DesiredRevision,
		"observedRevisionGeneration", status.ObservedRevisionGeneration)
	return nil
}
