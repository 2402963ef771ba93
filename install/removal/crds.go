// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/internal/object"
)

// crds reads CRDs from the API server and changes the metadata of the installer in them.
type crds struct {
	live   client.Reader
	writer client.Writer
	owners engine.Owners
}

// unmark removes the label, the revision and the owner from a CRD.
func (c crds) unmark(ctx context.Context, name, owner string) error {
	crd, err := instance.ReadCRD(ctx, c.live, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if !c.owners.Controls(owner, crd) {
		return nil
	}
	unmarked := crd.DeepCopy()
	c.owners.Remove(owner, unmarked)
	unlabel(unmarked)
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := c.writer.Patch(ctx, unmarked, patch, client.FieldOwner(v1alpha1.FieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the owner from retained %s: %w", object.Describe(crd), err)
	}
	return nil
}

// unlabel removes the label and the revision from an object.
func unlabel(obj client.Object) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	delete(labels, engine.ManagedByLabel)
	delete(annotations, v1alpha1.RevisionAnnotation)
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// markAdoptable annotates a retained CRD, so that the next version that contains
// it adopts it.
func (c crds) markAdoptable(ctx context.Context, crd *unstructured.Unstructured) error {
	if allowsAdoption(crd) {
		return nil
	}
	patch := client.RawPatch(apitypes.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AdoptAnnotation, v1alpha1.AdoptAlways))
	if err := c.writer.Patch(ctx, crd, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotating %s, which is retained because of its instances: %w", object.Describe(crd), err)
	}
	return nil
}
