// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// driftEvents returns the event about external changes that this attempt has reverted.
// The current version was installed completely, so another actor must have modified or
// deleted each object that was written. The status names the current version, so a restart of
// the installer causes no such event. Contested objects are in the condition instead.
func (a attempt) driftEvents(current string, of contests) []status.Event {
	if a.plan.name != current {
		return nil
	}
	var reverted []string
	for o := range a.result.Objects() {
		if change := externalChange(o.Action); change != "" && !o.Paused && !a.plan.addsCheck(o) {
			countDrift(o)
			if of.contested(o.Identity) {
				continue
			}
			reverted = append(reverted, changeOf(o))
		}
	}
	if reverted == nil {
		return nil
	}
	return []status.Event{{Reason: status.DriftCorrected, Warning: true, Message: "reverted external changes: " + strings.Join(reverted, ", ")}}
}

// addsCheck reports whether an object is the check of a CRD that has become unmanaged since the version was created. Until the next version
// exists, the current one creates it.
func (v version) addsCheck(o engine.Object) bool {
	return o.Action == engine.Created && o.GroupKind == object.CompatibilityRequirement && slices.ContainsFunc(v.added, func(crd string) bool {
		return o.Name == revision.RequirementName(crd, v.number)
	})
}

// differences lists the objects that a reconcile would write, or fail to write.
func differences(result engine.Result) []string {
	var found []string
	for o := range result.Objects() {
		change := externalChange(o.Action)
		if o.Action == engine.Collision {
			change = "managed by another owner"
		}
		if change != "" {
			found = append(found, o.String()+" ("+change+")")
		}
	}
	for _, rejection := range result.Rejections() {
		found = append(found, rejection.Error())
	}
	return found
}
