// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// driftEvents returns the event about external changes that this attempt has reverted.
// The current version was installed completely, so another actor must have modified or
// deleted each object that was written. The status names the current version, so a restart of
// the installer causes no such event. Contested objects are in the condition instead,
// and restored ones in another event.
func (a attempt) driftEvents(current string, of *contention) []status.Event {
	if a.plan.name != current {
		return nil
	}
	key := a.plan.key()
	var reverted []string
	for o := range a.result.Objects() {
		if change := externalChange(o.Action); change != "" && !o.Paused && !a.plan.addsCheck(o) {
			countDrift(o)
			if of.contested(subject{key, o.Identity}) || o.RestoredBy != "" {
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

// restoreEvents returns the event about objects that a tool had restored from a backup before this attempt has written them.
func (a attempt) restoreEvents() []status.Event {
	restored := map[string][]string{}
	for o := range a.result.Objects() {
		if o.RestoredBy != "" {
			restored[o.RestoredBy] = append(restored[o.RestoredBy], o.String())
		}
	}
	var parts []string
	for _, manager := range slices.Sorted(maps.Keys(restored)) {
		parts = append(parts, "field manager "+manager+" has restored "+text.First(10, restored[manager]))
	}
	if parts == nil {
		return nil
	}
	return []status.Event{{Reason: status.RestoreRecognized, Message: "installed objects were restored from a backup, and the installer owns their fields again: " + strings.Join(parts, "; ")}}
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
