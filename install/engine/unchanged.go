// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// versionReader is a reader that remembers the resource versions of the objects it has read. They show which writes had no
// effect: the original boxcutter writes at each reconcile values that the API server stores in another form.
type versionReader struct {
	client.Reader

	mutex sync.Mutex
	read  map[object.Identity]string
}

// reset forgets all versions.
func (r *versionReader) reset() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.read = map[object.Identity]string{}
}

// Get reads an object.
func (r *versionReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, options...)
	if err == nil {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if r.read != nil {
			r.read[object.IdentityOf(o)] = o.GetResourceVersion()
		}
	}
	return err
}

// withoutEffect makes writes idle that have not changed their object.
func (r *versionReader) withoutEffect(phases []Phase) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, phase := range phases {
		for i, o := range phase.Objects {
			if before, known := r.read[o.Identity]; known && before == o.Version && o.Action.Writes() && !o.Paused {
				phase.Objects[i].Action, phase.Objects[i].Change = Idle, ""
			}
		}
	}
}
