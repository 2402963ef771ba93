// SPDX-License-Identifier: Apache-2.0

// Package officialapi connects the installer with OpenShift's own ClusterAPI
// object, of API group operator.openshift.io. HyperShift and other controllers list
// the CRDs that they manage in its spec, and wait for its status before they write
// these CRDs. Its unmanaged CRDs count in addition to the CRDs in the installer's
// ClusterAPI object, and its status follows the status of that object.
//
// The API is optional, and used as soon as the cluster serves it.
package officialapi

import (
	"context"
	"fmt"
	"slices"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	installrevision "github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// FieldOwner is the manager of the status fields that the installer applies to the official ClusterAPI object.
const FieldOwner = v1alpha1.Prefix + "/official-status"

// Name describes the object in messages.
const Name = "ClusterAPI.operator.openshift.io " + v1alpha1.ClusterAPIName

// crdName is the name of the CRD of the official object.
var crdName = "clusterapis." + operatorv1alpha1.GroupName

// Source reads the official ClusterAPI object. A nil *Source ignores the API.
type Source struct {
	// Reader reads from a cache, also the metadata of CRDs: without the CRD, each question
	// about the object is a request to discovery.
	Reader client.Reader
}

// Get returns the object. It returns nil if the API is not served, the object does
// not exist, or the API is ignored.
func (s *Source) Get(ctx context.Context) (*operatorv1alpha1.ClusterAPI, error) {
	if s == nil {
		return nil, nil
	}
	official := &operatorv1alpha1.ClusterAPI{}
	err := s.Reader.Get(ctx, client.ObjectKey{Name: crdName}, object.CRDMetadata())
	if err == nil {
		err = s.Reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, official)
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", Name, err)
	}
	return official, nil
}

// AddUnmanaged adds the unmanaged CRDs of the official object to the spec of
// cluster. The caller must not write cluster back.
func (s *Source) AddUnmanaged(ctx context.Context, cluster *v1alpha1.ClusterAPI) error {
	official, err := s.Get(ctx)
	if official == nil || err != nil {
		return err
	}
	cluster.Spec.UnmanagedCRDs = union(cluster.Spec.UnmanagedCRDs, unmanaged(official))
	return nil
}

// Predecessor returns the current revision in the status of the official object; empty if there is none. Before the installer has
// written the status, it is the one that cluster-capi-operator has completely installed.
func (s *Source) Predecessor(ctx context.Context) (string, error) {
	official, err := s.Get(ctx)
	if official == nil || err != nil {
		return "", err
	}
	return string(official.Status.CurrentRevision), nil
}

// Revisions returns the revisions in the status of the official object as versions
// with only a number. cluster-capi-operator has numbered its revisions there, and a
// new version must get a higher number.
func (s *Source) Revisions(ctx context.Context) ([]v1alpha1.Version, error) {
	official, err := s.Get(ctx)
	if official == nil || err != nil {
		return nil, err
	}
	var versions []v1alpha1.Version
	for _, revision := range official.Status.Revisions {
		versions = append(versions, v1alpha1.Version{Name: string(revision.Name), Revision: revision.Revision})
	}
	return versions, nil
}

func unmanaged(official *operatorv1alpha1.ClusterAPI) []string {
	if official.Spec == nil {
		return nil
	}
	return official.Spec.UnmanagedCustomResourceDefinitions
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

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
