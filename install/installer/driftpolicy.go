// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// ignoredFields describes the fields that the drift policy leaves to other actors, and its entries for objects that the version does
// not have; empty without such fields.
func (p plan) ignoredFields() string {
	var found, unknown []string
	for _, entry := range p.ignored {
		before := len(found)
		for _, obj := range revision.Objects(slices.Concat(p.phases, p.others)) {
			if entry.Matches(object.GroupKind(obj), obj.GetName()) {
				found = append(found, object.Describe(obj)+" ("+strings.Join(entry.Fields, ", ")+")")
			}
		}
		if len(found) == before {
			unknown = append(unknown, entry.Target())
		}
	}
	var parts []string
	if found != nil {
		parts = append(parts, "fields left to other actors by spec.driftPolicy: "+strings.Join(found, ", "))
	}
	if unknown != nil {
		parts = append(parts, "spec.driftPolicy names objects that no component has: "+strings.Join(unknown, ", "))
	}
	return strings.Join(parts, "; ")
}

// settledMessage joins the messages of a settled version. It is empty without messages: then the table of reasons has the text.
func settledMessage(first, more string) string {
	if more == "" {
		return first
	}
	return cmp.Or(first, reason.Of(reason.AsExpected).Message) + "; " + more
}
