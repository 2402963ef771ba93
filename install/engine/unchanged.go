// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/internal/object"
)

// reads are the objects that were read while a phase was applied. They show which writes had no effect: the original boxcutter writes at each
// reconcile values that the API server stores in another form. And they show which objects a tool has restored from a backup.
type reads struct{ known sync.Map } // of read by object.Identity

// read is an object before its write.
type read struct{ version, restoredBy string }

// readsKey is the key of the reads in the context of a phase.
type readsKey struct{}

// in returns a context whose reads are recorded.
func (r *reads) in(ctx context.Context) context.Context { return context.WithValue(ctx, readsKey{}, r) }

// recordingReader records the reads of a phase.
type recordingReader struct{ client.Reader }

// Get reads an object.
func (r recordingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, options...)
	if seen, recorded := ctx.Value(readsKey{}).(*reads); recorded && err == nil {
		seen.known.Store(object.IdentityOf(o), read{o.GetResourceVersion(), restoredBy(o)})
	}
	return err
}

// restoredBy returns the field manager that has restored an object from a backup; empty for other objects. A restored object names a version as
// its owner, although the installer owns none of its fields.
func restoredBy(o client.Object) string {
	if o.GetAnnotations()[v1alpha1.OwnersAnnotation] == "" || fieldset.Owned(o) {
		return ""
	}
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" {
			return entry.Manager
		}
	}
	return "unknown"
}

// compared makes writes idle that have not changed their object, and marks the writes of restored objects.
func (r *reads) compared(phases []Phase) []Phase {
	for _, phase := range phases {
		for i, o := range phase.Objects {
			found, _ := r.known.Load(o.Identity)
			before, known := found.(read)
			switch {
			case !known || !o.Action.Writes() || o.Paused:
			case before.version == o.Version:
				phase.Objects[i].Action, phase.Objects[i].Change = Idle, ""
			default:
				phase.Objects[i].RestoredBy = before.restoredBy
			}
		}
	}
	return phases
}
