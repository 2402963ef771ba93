// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// pendingChanges describes the changes between the phases of two versions; name is the
// second version.
func pendingChanges(name string, from, to []revision.Phase) string {
	before, after := revision.ByIdentity(from), revision.ByIdentity(to)
	var created, changed, removed []string
	for _, obj := range revision.Objects(to) {
		switch old := before[object.IdentityOf(obj)]; {
		case old == nil:
			created = append(created, object.Describe(obj))
		case !equality.Semantic.DeepEqual(old.Object, obj.Object):
			changed = append(changed, object.Describe(obj))
		}
	}
	for _, obj := range revision.Objects(from) {
		if after[object.IdentityOf(obj)] == nil {
			removed = append(removed, object.Describe(obj))
		}
	}
	var parts []string
	for _, change := range []struct {
		verb    string
		objects []string
	}{{"change", changed}, {"create", created}, {"remove", removed}} {
		if change.objects != nil {
			parts = append(parts, fmt.Sprintf("%s %d: %s", change.verb, len(change.objects), text.First(10, change.objects)))
		}
	}
	if parts == nil {
		return "version " + name + " is pending and would change no object"
	}
	return "version " + name + " is pending and would " + strings.Join(parts, "; ")
}
