// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Guards protect a cluster from a version: before its first write (preflight), before a phase (prepare), and while it is rolled out (Readable).
// A version is judged until nothing stops it, at each reconcile: an event of an installed object causes one, and other objects are checked again
// after some seconds.
type Guards struct {
	// Live reads objects that the cache does not have; nil skips the preflight.
	Live client.Reader
	// Writer sends the dry runs, and deletes Deployments that move to another namespace.
	Writer client.Writer
	// Instance names an instance of a CRD; empty if there are none.
	Instance func(ctx context.Context, crd *unstructured.Unstructured) (string, error)
	// DropVersions prepares a CRD of the cluster for a manifest that lacks stored versions; nil does nothing.
	DropVersions func(ctx context.Context, crd *unstructured.Unstructured) error
	// Readable returns an error if an instance of a CRD of the cluster cannot be read in a served version; nil returns none.
	Readable func(ctx context.Context, crd string) error

	// passed is the version that nothing stops. A process that starts later judges it again, unless its rollout has begun.
	passed passed
}

// passed is a version that nothing stops, with the key of its plan and the notes about it.
type passed struct {
	version, key string
	notes        []preflight.Finding
}

// hasBegun reports whether objects of a version were applied: they must be maintained.
func hasBegun(version *v1alpha1.Version) bool {
	return version != nil && slices.ContainsFunc(version.Phases, func(phase v1alpha1.Phase) bool {
		return phase.Name != revision.Preflight && phase.State != v1alpha1.PhasePending
	})
}

// observed is the cluster that the preflight reads.
type observed struct {
	cache client.Reader
	*Guards
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
		err = o.Live.Get(ctx, client.ObjectKeyFromObject(like), out)
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return out, err
}

// Apply implements preflight.Cluster.
func (o observed) Apply(ctx context.Context, desired *unstructured.Unstructured) error {
	return o.Writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired.DeepCopy()), client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership, client.DryRunAll)
}

// Merge implements preflight.Cluster.
func (o observed) Merge(ctx context.Context, desired *unstructured.Unstructured, patch []byte) error {
	return o.Writer.Patch(ctx, desired.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldOwner), client.DryRunAll)
}

// Instance implements preflight.Cluster.
func (o observed) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	found, err := o.Guards.Instance(ctx, crd)
	if apierrors.IsForbidden(err) {
		return "it may have instances: " + err.Error(), nil
	}
	return found, err
}

// Create implements preflight.Cluster.
func (p *Guards) Create(ctx context.Context, desired *unstructured.Unstructured) error {
	return p.Writer.Create(ctx, desired.DeepCopy(), client.FieldOwner(v1alpha1.FieldOwner), client.DryRunAll)
}

// readable returns the errors about CRDs of a plan with an instance that cannot be read. A version with such a CRD is not complete.
func (p *Guards) readable(ctx context.Context, of plan) error {
	var failed []error
	for _, obj := range revision.Objects(of.phases) {
		if p.Readable != nil && object.IsCRD(obj) && object.TextAt(obj.Object, "spec", "conversion", "strategy") == "Webhook" {
			failed = append(failed, p.Readable(ctx, obj.GetName()))
		}
	}
	return errors.Join(failed...)
}
