// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

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
		if change := externalChange(o.Action); change != "" && !o.Paused && !o.Own && !a.plan.followsSpec(o) {
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

// followsSpec reports whether an object was written because the list of unmanaged CRDs has changed since the version was created: the check of a
// CRD that has become unmanaged, or a CRD that is managed again. Until the next version exists, the current one writes both.
func (v version) followsSpec(o engine.Object) bool {
	if o.GroupKind == object.CustomResourceDefinition {
		return slices.Contains(v.released, o.Name)
	}
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

// ignoredFields describes the fields that the drift policy leaves to other actors; empty without such fields.
func (p plan) ignoredFields() string {
	var found []string
	for _, entry := range p.ignored {
		for _, obj := range revision.Objects(slices.Concat(p.phases, p.others)) {
			if entry.Matches(object.GroupKind(obj), obj.GetName()) {
				found = append(found, object.Describe(obj)+" ("+strings.Join(entry.Fields, ", ")+")")
			}
		}
	}
	if found == nil {
		return ""
	}
	return "fields left to other actors by spec.driftPolicy: " + strings.Join(found, ", ")
}

// settledMessage joins the messages of a settled version. It is empty without messages: then the table of reasons has the text.
func settledMessage(first, more string) string {
	if more == "" {
		return first
	}
	return cmp.Or(first, reason.Of(reason.AsExpected).Message) + "; " + more
}

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
