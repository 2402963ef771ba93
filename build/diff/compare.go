// SPDX-License-Identifier: Apache-2.0

// Package diff compares two sets of providers and reports the changes that a reviewer
// of an upgrade needs to see. It performs no I/O.
//
// Objects are compared field by field, list items by their keys. Some kinds are
// compared by their meaning:
//
//   - CRDs: whether existing objects stay valid and complete, and clients keep working;
//     each property is checked with the validations of sigs.k8s.io/crdify;
//   - roles: each role with the role of the same name, as sets of verb, group, resource and
//     name, with the subjects that are bound to it; aggregated roles are not followed;
//   - bindings: the roles that subjects gain and lose;
//   - webhooks: the requests that they match, and their failure policy;
//   - images of workloads.
//
// Changes of no interest to a reviewer are folded: the report marks them and counts
// them in one line.
package diff

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Compare reports the changes from a to b. Providers are in the order of b, followed
// by those that only a has. The order of objects in the input has no effect.
func Compare(a, b []Provider) Report {
	pairs := pairProviders(a, b)
	access := access{bindingsOf(a), bindingsOf(b)}
	report := Report{Providers: []ProviderChange{}}
	for _, p := range pairs {
		report.Providers = append(report.Providers, p.compare(access))
	}
	report.Verdict = verdict(report)
	return report
}

// pair is a provider on both sides; a missing one is the zero Provider.
type pair struct {
	a, b       Provider
	inA, inB   bool
	objects    []objectPair
	name, kind string
}

// objectPair is an object on both sides; a missing one is nil.
type objectPair struct {
	ref  Ref
	a, b *unstructured.Unstructured
	// from is the name of the previous provider if the object moved.
	from string
}

// pairProviders matches the providers of both sides, and their objects. An object
// that moved to another provider is still the same object.
func pairProviders(a, b []Provider) []*pair {
	var pairs []*pair
	for _, provider := range b {
		pairs = append(pairs, &pair{b: provider, inB: true, name: provider.Name, kind: provider.Type})
	}
	for _, provider := range a {
		at := slices.IndexFunc(pairs, func(p *pair) bool { return !p.inA && p.name == provider.Name && p.kind == provider.Type })
		if at < 0 {
			at = len(pairs)
			pairs = append(pairs, &pair{name: provider.Name, kind: provider.Type})
		}
		pairs[at].a, pairs[at].inA = provider, true
	}
	for _, p := range pairs {
		p.objects = pairObjects(p.a.Objects, p.b.Objects)
	}
	joinMoved(pairs)
	return pairs
}

func pairObjects(a, b []*unstructured.Unstructured) []objectPair {
	before, after := byRef(a), byRef(b)
	var pairs []objectPair
	for ref := range union(before, after) {
		pairs = append(pairs, objectPair{ref: ref, a: before[ref], b: after[ref]})
	}
	slices.SortFunc(pairs, func(x, y objectPair) int { return x.ref.compare(y.ref) })
	return pairs
}

func byRef(objects []*unstructured.Unstructured) map[Ref]*unstructured.Unstructured {
	refs := map[Ref]*unstructured.Unstructured{}
	for _, o := range objects {
		refs[refOf(o)] = o
	}
	return refs
}

func refOf(o *unstructured.Unstructured) Ref {
	return Ref{o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName()}
}

func union[K comparable, V any](a, b map[K]V) map[K]bool {
	all := map[K]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return all
}

// joinMoved joins the two pairs of an object that moved from one provider to another.
func joinMoved(pairs []*pair) {
	type place struct {
		pair   *pair
		object *unstructured.Unstructured
	}
	removed := map[Ref]place{}
	for _, p := range pairs {
		for _, o := range p.objects {
			if _, duplicate := removed[o.ref]; o.b == nil && !duplicate {
				removed[o.ref] = place{p, o.a}
			}
		}
	}
	for _, p := range pairs {
		for i, o := range p.objects {
			before, moved := removed[o.ref]
			if o.a != nil || !moved {
				continue
			}
			p.objects[i].a, p.objects[i].from = before.object, before.pair.name
			before.pair.objects = slices.DeleteFunc(before.pair.objects, func(g objectPair) bool { return g.ref == o.ref && g.b == nil })
			delete(removed, o.ref)
		}
	}
}

// outcome classifies the provider; differs reports whether any of its objects changed.
func (p *pair) outcome(differs bool) Outcome {
	switch {
	case !p.inA:
		return Added
	case !p.inB:
		return Removed
	case differs || p.a.Version != p.b.Version:
		return Changed
	case p.a.Image != p.b.Image && p.a.Image != "" && p.b.Image != "": // a directory has no image
		return Changed
	}
	return Same
}

func (p *pair) compare(access access) ProviderChange {
	change := ProviderChange{
		Name: p.name, Type: p.kind, Entries: []Entry{}, Folds: []Fold{},
		Versions: [2]string{p.a.Version, p.b.Version}, Images: [2]string{p.a.Image, p.b.Image},
	}
	change.ImageChanges = imageChanges(p)
	for _, o := range p.objects {
		if entry, differs := o.compare(access); differs {
			change.Entries = append(change.Entries, entry)
		}
	}
	p.addRequirements(&change)
	change.fold()
	change.Folds = foldsOf(change.Entries)
	for i := range change.Entries {
		change.Entries[i].setLevel()
	}
	slices.SortStableFunc(change.Entries, compareEntries)
	change.Cells = cellsOf(change)
	for _, cell := range change.Cells {
		change.Level = worse(change.Level, cell.Level)
	}
	change.Outcome = p.outcome(len(change.Entries) > 0)
	if change.Outcome != Same {
		change.Level = worse(change.Level, Noise)
	}
	return change
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(slices.Index(Areas(), a.Area), slices.Index(Areas(), b.Area)), compareLevels(a.Level, b.Level), a.Object.compare(b.Object))
}

// compare returns the differences of an object.
func (o objectPair) compare(access access) (entry Entry, differs bool) {
	entry = Entry{Area: areaOf(o.ref), Object: o.ref, Outcome: Changed, From: o.from}
	same := o.a != nil && o.b != nil && object.Equal(o.a.Object, o.b.Object)
	if same && o.from == "" {
		return entry, false
	}
	if o.from != "" {
		entry.Changes = append(entry.Changes, Change{Rule: "object/moved", Level: Plain, Message: "moved from another provider", From: o.from})
	}
	switch {
	case o.a == nil:
		entry.Outcome, entry.Changes = Added, []Change{added(o.ref)}
	case o.b == nil:
		entry.Outcome, entry.Changes = Removed, []Change{removed(o.ref)}
	case !same:
		entry.Changes = append(entry.Changes, o.changes()...)
	}
	if entry.Area == RBAC {
		entry.Changes = append(entry.Changes, access.changes(o)...)
	}
	if len(entry.Changes) == 0 {
		entry.Changes = []Change{{Rule: "object/rewritten", Level: Noise, Fold: FoldRewritten, Message: "rewritten without semantic change"}}
	}
	return entry, true
}

// changes compares an object with the comparison for its kind.
func (o objectPair) changes() []Change {
	switch areaOf(o.ref) {
	case CRDs:
		return crdChanges(o.a, o.b)
	case Webhooks:
		return webhookChanges(o.a.Object, o.b.Object)
	default:
		return objectChanges(o.ref, o.a.Object, o.b.Object)
	}
}

func areaOf(ref Ref) Area {
	switch ref.groupKind() {
	case object.CustomResourceDefinition:
		return CRDs
	case object.ValidatingWebhookConfiguration, object.MutatingWebhookConfiguration:
		return Webhooks
	}
	if ref.Group == object.RBACGroup {
		return RBAC
	}
	return Objects
}

func added(ref Ref) Change {
	change := Change{Rule: "object/added", Level: Plain, Message: "object added"}
	if areaOf(ref) == Webhooks {
		change.Level = Review
		change.Consequence = "The API server sends requests to the provider that it did not send before."
	}
	return change
}

func removed(ref Ref) Change {
	change := Change{Rule: "object/removed", Level: Review, Message: "object removed"}
	switch areaOf(ref) {
	case CRDs:
		change.Level = Breaking
		change.Consequence = "A CRD without instances is deleted. A CRD with instances is retained, but no controller reconciles them."
	case RBAC:
		change.Level = Plain // lost permissions are reported separately
	case Webhooks:
		change.Consequence = "The provider no longer validates or defaults these requests."
	default:
	}
	return change
}

// setLevel sets the entry's level to the worst level of its unfolded changes. If all
// changes are folded, the entry is folded too.
func (e *Entry) setLevel() {
	for _, change := range e.Changes {
		if change.Fold == "" {
			e.Level = worse(e.Level, change.Level)
		}
	}
	if e.Level == None {
		e.Folded, e.Level = true, e.worst()
	}
}

// worst returns the worst level of all changes, including folded ones.
func (e *Entry) worst() (level Level) {
	for _, change := range e.Changes {
		level = worse(level, change.Level)
	}
	return level
}

func cellsOf(p ProviderChange) map[Area]Cell {
	cells := map[Area]Cell{}
	for _, area := range Areas() {
		cells[area] = Cell{}
	}
	for _, entry := range p.Entries {
		cell := cells[entry.Area]
		cell.count(entry.Outcome, entry.Folded, entry.worst())
		cells[entry.Area] = cell
	}
	for _, image := range p.ImageChanges {
		cell := cells[Images]
		cell.count(image.Outcome, false, image.Level)
		cells[Images] = cell
	}
	return cells
}

func (c *Cell) count(outcome Outcome, folded bool, level Level) {
	c.Level = worse(c.Level, level)
	switch {
	case folded:
		c.Folded++
	case outcome == Added:
		c.Added++
	case outcome == Removed:
		c.Removed++
	default:
		c.Changed++
	}
}

func verdict(report Report) (v Verdict) {
	for _, provider := range report.Providers {
		v.Level = worse(v.Level, provider.Level)
		for _, entry := range provider.Entries {
			for _, change := range entry.Changes {
				v.count(change)
			}
		}
		for _, fold := range provider.Folds {
			if fold.Reason == FoldRepeated {
				fold.Change.Fold = ""
				v.count(fold.Change)
			}
		}
		for _, image := range provider.ImageChanges {
			if image.Level != Noise { // counted with the fields
				v.count(Change{Level: image.Level})
			}
		}
	}
	return v
}

func (v *Verdict) count(change Change) {
	switch {
	case change.Fold != "", change.Level == Noise:
		v.Folded++
	case change.Level == Breaking:
		v.Breaking++
	case change.Level == Widening:
		v.Widening++
	case change.Level == Review:
		v.Review++
	case change.Level == Plain:
		v.Plain++
	}
}
