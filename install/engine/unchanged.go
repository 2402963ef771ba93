// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// reads are the resource versions of the objects that were read while a phase was applied. They show which writes had no
// effect: the original boxcutter writes at each reconcile values that the API server stores in another form.
type reads struct{ versions sync.Map } // of string by object.Identity

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
		seen.versions.Store(object.IdentityOf(o), o.GetResourceVersion())
	}
	return err
}

// withoutEffect makes writes idle that have not changed their object.
func (r *reads) withoutEffect(phases []Phase) []Phase {
	for _, phase := range phases {
		for i, o := range phase.Objects {
			if before, known := r.versions.Load(o.Identity); known && before == o.Version && o.Action.Writes() && !o.Paused {
				phase.Objects[i].Action, phase.Objects[i].Change = Idle, ""
			}
		}
	}
	return phases
}
