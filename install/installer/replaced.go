// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// An admission plugin can replace a value in each write of the installer. Another write would change nothing, so the value stays,
// is named once, and is written again from time to time: the plugin may be gone.

// replacedRecheck is the time until the next attempt to write a value that was replaced.
const replacedRecheck = 10*time.Minute + time.Second

// replacements are the objects of a version with replaced values, and the names of the fields.
type replacements map[object.Identity]string

// replacementsIn returns the replacements in a result.
func replacementsIn(result engine.Result) replacements {
	out := replacements{}
	for o := range result.Objects() {
		if o.Replaced != nil {
			out[o.Identity] = text.First(3, o.Replaced)
		}
	}
	return out
}

// event returns the event about the objects that were not known before with these fields; nil if there are none.
func (r replacements) event(known replacements) []status.Event {
	var found []string
	for o, fields := range r {
		if known[o] != fields {
			found = append(found, o.String()+" (fields "+fields+")")
		}
	}
	if found == nil {
		return nil
	}
	slices.Sort(found)
	names := strings.Join(found, ", ")
	sum := fnv.New64a()
	sum.Write([]byte(names))
	return []status.Event{{
		Reason: status.ValuesReplaced, Warning: true, Key: fmt.Sprintf("values-replaced-%x", sum.Sum64()),
		Message: "the API server replaces values of the manifests in each write, because of a mutating webhook, an admission policy or a disabled feature: " + names,
	}}
}
