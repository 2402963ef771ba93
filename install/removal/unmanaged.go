// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/object"
)

// An unmanaged CRD belongs to another owner. If the installer managed the CRD before,
// it removes its own metadata and changes nothing else. A CRD that becomes managed
// again is adopted only while OpenShift's checker, or the installer, finds it compatible
// with the version that ran with it. Otherwise the update would destroy the changes of the
// other owner.

// ReleaseCRDs removes our metadata from the named CRDs: the label, the annotations, and
// the field ownership, because it would cause conflicts for other clients. It skips a
// CRD if ours returns false; if ours is nil, it covers all.
func (r *Remover) ReleaseCRDs(ctx context.Context, names []string, ours func(*unstructured.Unstructured) bool) error {
	var failed []error
	for _, name := range names {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(object.CRDVersion)
		err := r.Engine.Reader.Get(ctx, client.ObjectKey{Name: name}, crd) // holds only objects with our label
		if err == nil {
			err = r.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
		}
		if err == nil && crd.GetLabels()[engine.ManagedByLabel] == v1alpha1.Prefix && (ours == nil || ours(crd)) {
			err = r.crds().release(ctx, crd)
		}
		failed = append(failed, client.IgnoreNotFound(err))
	}
	return errors.Join(failed...)
}

// release removes our metadata from a CRD.
func (c crds) release(ctx context.Context, crd *unstructured.Unstructured) error {
	released := crd.DeepCopy()
	unlabel(released)
	annotations := released.GetAnnotations()
	delete(annotations, v1alpha1.OwnersAnnotation)
	delete(annotations, v1alpha1.AdoptAnnotation)
	released.SetAnnotations(annotations)
	released.SetManagedFields(slices.DeleteFunc(slices.Clone(crd.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == v1alpha1.FieldOwner && entry.Subresource == ""
	}))
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := c.writer.Patch(ctx, released, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("releasing unmanaged %s: %w", object.Describe(crd), err)
	}
	log.FromContext(ctx).Info("Released unmanaged CRD", "crd", crd.GetName())
	return nil
}

// RemoveRequirements deletes the CompatibilityRequirements of a removed version,
// also for CRDs that were unmanaged only temporarily.
func (r *Remover) RemoveRequirements(ctx context.Context, owner string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(compatibility.RequirementVersionKind.GroupVersion().WithKind(compatibility.RequirementVersionKind.Kind + "List"))
	err := r.Live.List(ctx, list, client.MatchingLabels{engine.ManagedByLabel: v1alpha1.Prefix})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	failed := []error{err}
	for i := range list.Items {
		if requirement := &list.Items[i]; r.Engine.Owners.Controls(owner, requirement) {
			failed = append(failed, client.IgnoreNotFound(r.Writer.Delete(ctx, requirement)))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("removing the CompatibilityRequirements of version %s: %w", owner, err)
	}
	return nil
}
