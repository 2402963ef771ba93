// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// pendingChanges describes the changes between the phases of two versions; name is the
// second version.
func pendingChanges(name string, from, to []revision.Phase) string {
	before, after := byName(from), byName(to)
	var created, changed, removed []string
	for _, key := range objectNames(to) {
		old, found := before[key]
		switch {
		case !found:
			created = append(created, key)
		case !equality.Semantic.DeepEqual(old.Object, after[key].Object):
			changed = append(changed, key)
		}
	}
	for _, key := range objectNames(from) {
		if after[key] == nil {
			removed = append(removed, key)
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

// objectNames returns the names of the objects of all phases, in their order.
func objectNames(phases []revision.Phase) []string {
	var out []string
	for _, phase := range phases {
		for _, obj := range phase.Objects {
			out = append(out, object.Describe(obj))
		}
	}
	return out
}

// byName returns the objects of all phases by name.
func byName(phases []revision.Phase) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, phase := range phases {
		for _, obj := range phase.Objects {
			out[object.Describe(obj)] = obj
		}
	}
	return out
}
