// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Preflight judges a version before its first object is written. It judges a version until nothing stops it, at each reconcile: an
// event of an installed object causes one, and other objects are checked again after some seconds.
type Preflight struct {
	// Live reads objects that the cache does not have; nil skips the preflight.
	Live client.Reader
	// Writer sends the dry runs, and deletes Deployments that move to another namespace.
	Writer client.Writer
	// Instance names an instance of a CRD; empty if there are none.
	Instance func(ctx context.Context, crd *unstructured.Unstructured) (string, error)

	// passed is the key of the plan that nothing stops, and notes are the findings about it.
	passed string
	notes  []preflight.Finding
}

// hasBegun reports whether objects of a version were applied: they must be maintained.
func hasBegun(version *v1alpha1.Version) bool {
	return version != nil && slices.ContainsFunc(version.Phases, func(phase v1alpha1.Phase) bool {
		return phase.Name != revision.Preflight && phase.State != v1alpha1.PhasePending
	})
}

// observed is the cluster that the preflight reads.
type observed struct {
	cache    client.Reader
	existing *existing
	*Preflight
}

// Read implements preflight.Cluster.
func (o observed) Read(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(like.GroupVersionKind())
	var err error = apierrors.NewNotFound(schema.GroupResource{Group: out.GroupVersionKind().Group, Resource: out.GetKind()}, like.GetName()) // without cache
	// The cache would watch all Secrets.
	if o.cache != nil && object.GroupKind(like) != object.Secret {
		err = o.cache.Get(ctx, client.ObjectKeyFromObject(like), out)
	}
	if apierrors.IsNotFound(err) {
		err = o.existing.get(ctx, out, client.ObjectKeyFromObject(like))
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return out, err
}

// Rejection implements preflight.Cluster.
func (o observed) Rejection(ctx context.Context, desired, _ *unstructured.Unstructured) error {
	return o.Writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired.DeepCopy()), client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership, client.DryRunAll)
}

// Instance implements preflight.Cluster.
func (o observed) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	found, err := o.Preflight.Instance(ctx, crd)
	if apierrors.IsForbidden(err) {
		return "it may have instances: " + err.Error(), nil
	}
	return found, err
}

// Creates implements preflight.Cluster.
func (p *Preflight) Creates(ctx context.Context, desired *unstructured.Unstructured) bool {
	if p.Writer == nil {
		return false
	}
	return preflight.Exists(p.Writer.Create(ctx, desired.DeepCopy(), client.FieldOwner(v1alpha1.FieldOwner), client.DryRunAll))
}
