// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Objects of cluster-capi-operator are adopted without the adopt-existing annotation,
// because an upgrade runs unattended. An adoption takes two writes. The first removes
// the predecessor's revision number from the object and transfers the ownership of the
// applied fields; the second is the apply. If the process ends in between, the next
// process finds an object that is already handed over.

// takeOver hands over the colliding objects of cluster-capi-operator, and adds them to the
// decision.
func (a *Adopter) takeOver(ctx context.Context, namespace string, collisions []engine.Object, into *Decision) error {
	var failed []error
	for _, o := range collisions {
		if !predecessor.Adoptable(namespace, o.Actual) {
			continue
		}
		if !predecessor.HandedOver(o.Actual) {
			if err := a.handOver(ctx, o.Actual); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		into.Adopt.Insert(o.Identity)
		taken := o.String()
		if number, owned := predecessor.Revision(o.Actual); owned {
			taken += fmt.Sprintf(" of revision %d", number)
		}
		into.Taken = append(into.Taken, taken)
	}
	return errors.Join(failed...)
}

// handOver makes the first of the two writes. A conflict means that the object has
// changed since it was read; the next reconcile decides again.
func (a *Adopter) handOver(ctx context.Context, actual *unstructured.Unstructured) error {
	changed, err := predecessor.HandOver(actual)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(actual, client.MergeFromWithOptimisticLock{})
	err = a.Writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking %s over from %s: %w", object.Describe(actual), predecessor.Name, err)
	}
	return nil
}
