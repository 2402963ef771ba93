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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
