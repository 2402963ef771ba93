// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// pausing returns the options of a phase, in which the reserved objects that do not exist, or are being deleted, are paused too.
func pausing(ctx context.Context, reader client.Reader, phase revision.Phase, how Apply) Apply {
	absent := sets.New[object.Identity]()
	for _, obj := range phase.Objects {
		if id := object.IdentityOf(obj); how.Reserved.Has(id) {
			actual, err := ReferenceTo(obj).Read(ctx, reader)
			if apierrors.IsNotFound(err) || err == nil && actual.GetDeletionTimestamp() != nil {
				absent.Insert(id)
			}
		}
	}
	if paused := how.Paused; absent.Len() > 0 {
		how.Paused = func(id object.Identity) bool { return absent.Has(id) || paused != nil && paused(id) }
	}
	return how
}

// applyKey is the key of the options in the context of an application.
type applyKey struct{}

// checkedWriter sends no dry run of a checked object that does not exist.
type checkedWriter struct {
	client.Writer
	reader client.Reader
}

// Patch patches an object.
func (w checkedWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	if how, _ := ctx.Value(applyKey{}).(Apply); how.Checked.Has(object.IdentityOf(obj)) {
		if _, err := ReferenceTo(obj).Read(ctx, w.reader, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
			return nil
		}
	}
	return w.Writer.Patch(ctx, obj, patch, options...)
}

// reservingWriter does not create reserved objects. An object can be deleted after its phase began. Then the creation is a conflict, and the engine
// applies the phase again, with the object paused.
type reservingWriter struct {
	client.Writer
	reader client.Reader
}

// Create creates an object.
func (w reservingWriter) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	if reserves(ctx, obj) && len((&client.CreateOptions{}).ApplyOptions(options).DryRun) == 0 {
		return deletedForTheNext(obj)
	}
	return w.Writer.Create(ctx, obj, options...)
}

// Apply applies an object. The API server creates an applied object that does not exist, unless the object has a UID.
func (w reservingWriter) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if obj, isObject := config.(client.Object); isObject && obj.GetUID() == "" && reserves(ctx, obj) {
		actual, err := ReferenceTo(obj).Read(ctx, w.reader)
		if apierrors.IsNotFound(err) {
			return deletedForTheNext(obj)
		}
		if err != nil {
			return err
		}
		obj.SetUID(actual.GetUID())
	}
	return w.Writer.Apply(ctx, config, options...)
}

// reserves reports whether an object is reserved in an application.
func reserves(ctx context.Context, obj client.Object) bool {
	how, _ := ctx.Value(applyKey{}).(Apply)
	return how.Reserved.Has(object.IdentityOf(obj))
}

func deletedForTheNext(obj client.Object) error {
	id := object.IdentityOf(obj)
	return apierrors.NewConflict(schema.GroupResource{Group: id.Group, Resource: id.Kind}, obj.GetName(), errors.New("it was deleted for the next version"))
}
