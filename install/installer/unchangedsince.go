// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// unchangedSince reports whether the version with a revision number has the same object.
// Such an object gets one write in an upgrade: boxcutter need not find out whether the new
// version drops fields of it.
type unchangedSince func(obj client.Object, number int64) bool

// unchangedSince compares the objects of a revision with those of older versions. Of a
// version that cannot be read, or that status.versions no longer has, no object counts as
// the same. The function is safe for concurrent use.
func (e *Engine) unchangedSince(rev *loadedRevision) unchangedSince {
	var mutex sync.Mutex
	known := map[int64]map[object.Identity]*unstructured.Unstructured{}
	ours := sync.OnceValue(func() map[object.Identity]*unstructured.Unstructured { return revision.ByIdentity(rev.phases) })
	return func(obj client.Object, number int64) bool {
		mutex.Lock()
		defer mutex.Unlock()
		older, found := known[number]
		if !found {
			older = e.objectsOfOlder(rev, number)
			known[number] = older
		}
		id := object.IdentityOf(obj)
		mine, theirs := ours()[id], older[id]
		return mine != nil && theirs != nil && equality.Semantic.DeepEqual(mine.Object, theirs.Object)
	}
}

// objectsOfOlder returns the objects of the version with a revision number.
func (e *Engine) objectsOfOlder(rev *loadedRevision, number int64) map[object.Identity]*unstructured.Unstructured {
	if rev.sibling == nil {
		return nil
	}
	older, err := rev.sibling(number)
	if err != nil || e.planPhases(older) != nil {
		return nil
	}
	return revision.ByIdentity(older.phases)
}
