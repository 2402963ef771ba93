// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// pausing returns the options of a phase, in which the reserved objects that do not exist are paused too.
func (e *Engine) pausing(ctx context.Context, phase revision.Phase, how Apply) Apply {
	absent := sets.New[object.Identity]()
	for _, obj := range phase.Objects {
		if id := object.IdentityOf(obj); how.Reserved.Has(id) && e.isAbsent(ctx, obj) {
			absent.Insert(id)
		}
	}
	if paused := how.Paused; absent.Len() > 0 {
		how.Paused = func(id object.Identity) bool { return absent.Has(id) || paused != nil && paused(id) }
	}
	return how
}

// isAbsent reports whether an object is deleted, or is being deleted.
func (e *Engine) isAbsent(ctx context.Context, obj *unstructured.Unstructured) bool {
	actual, err := referenceTo(obj).Read(ctx, e.Reader)
	return apierrors.IsNotFound(err) || err == nil && actual.GetDeletionTimestamp() != nil
}

// reservingWriter does not create reserved objects. An object can be deleted after its phase began. Then the creation is a conflict, and the engine
// applies the phase again, with the object paused.
type reservingWriter struct {
	client.Writer

	reserved sets.Set[object.Identity]
}

// Create creates an object.
func (w *reservingWriter) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	id := object.IdentityOf(obj)
	if w.reserved.Has(id) && len((&client.CreateOptions{}).ApplyOptions(options).DryRun) == 0 {
		return apierrors.NewConflict(schema.GroupResource{Group: id.Group, Resource: id.Kind}, obj.GetName(), errors.New("it was deleted for the next version"))
	}
	return w.Writer.Create(ctx, obj, options...)
}
