// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Compare tells what changed from a to b. The order of the providers is that of b,
// with those that only a has at the end; nothing else depends on an order.
func Compare(a, b []Provider) Report {
	pairs := paired(a, b)
	access := accessChanges(a, b)
	report := Report{Providers: []ProviderChange{}, Access: access.changes}
	for _, p := range pairs {
		report.Providers = append(report.Providers, p.compare(access))
	}
	report.Verdict = verdict(report)
	return report
}

// pair is a provider on both sides. On the side that has it not there is the zero Provider.
type pair struct {
	a, b       Provider
	inA, inB   bool
	objects    []objectPair
	name, kind string
}

// objectPair is an object on both sides; nil where it is not.
type objectPair struct {
	ref  Ref
	a, b *unstructured.Unstructured
	// from is the provider that had it before, if that is another.
	from string
}

// paired finds for each provider and object the one that it was before. An object
// that another provider took over is the same object.
func paired(a, b []Provider) []*pair {
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

// joinMoved makes one pair of an object that one provider no longer has and another has now.
func joinMoved(pairs []*pair) {
	type place struct {
		pair   *pair
		object *unstructured.Unstructured
	}
	gone := map[Ref]place{}
	for _, p := range pairs {
		for _, o := range p.objects {
			if _, twice := gone[o.ref]; o.b == nil && !twice {
				gone[o.ref] = place{p, o.a}
			}
		}
	}
	for _, p := range pairs {
		for i, o := range p.objects {
			before, moved := gone[o.ref]
			if o.a != nil || !moved {
				continue
			}
			p.objects[i].a, p.objects[i].from = before.object, before.pair.name
			before.pair.objects = slices.DeleteFunc(before.pair.objects, func(g objectPair) bool { return g.ref == o.ref && g.b == nil })
			delete(gone, o.ref)
		}
	}
}

// is says what became of the provider, given what became of its objects.
func (p *pair) is(differs bool) Is {
	switch {
	case !p.inA:
		return Added
	case !p.inB:
		return Removed
	case differs || p.a.Version != p.b.Version:
		return Changed
	case p.a.Image != p.b.Image && p.a.Image != "" && p.b.Image != "": // what is in no image yet is in no other one
		return Changed
	}
	return Same
}

func (p *pair) compare(access accessReport) ProviderChange {
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
	change.fold()
	change.Folds = foldsOf(change.Entries)
	for i := range change.Entries {
		change.Entries[i].settle()
	}
	slices.SortStableFunc(change.Entries, compareEntries)
	change.Cells = cellsOf(change)
	for _, cell := range change.Cells {
		change.Level = worse(change.Level, cell.Level)
	}
	change.Is = p.is(len(change.Entries) > 0)
	if change.Is != Same {
		change.Level = worse(change.Level, Noise)
	}
	return change
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(slices.Index(Areas(), a.Area), slices.Index(Areas(), b.Area)), compareLevels(a.Level, b.Level), a.Object.compare(b.Object))
}

// compare tells how an object differs.
func (o objectPair) compare(access accessReport) (entry Entry, differs bool) {
	entry = Entry{Area: areaOf(o.ref), Object: o.ref, Is: Changed, From: o.from}
	same := o.a != nil && o.b != nil && reflect.DeepEqual(o.a.Object, o.b.Object)
	if same && o.from == "" {
		return entry, false
	}
	if o.from != "" {
		entry.Changes = append(entry.Changes, Change{Rule: "object/moved", Level: Plain, Says: "is brought by another provider", From: o.from})
	}
	switch {
	case o.a == nil:
		entry.Is, entry.Changes = Added, []Change{added(o.ref)}
	case o.b == nil:
		entry.Is, entry.Changes = Removed, []Change{removed(o.ref)}
	case !same:
		entry.Changes = append(entry.Changes, o.changes()...)
	}
	if entry.Area == RBAC {
		entry.Changes = append(entry.Changes, access.roleChanges(o)...)
	}
	if len(entry.Changes) == 0 {
		entry.Changes = []Change{{Rule: "object/rewritten", Level: Noise, Fold: FoldRewritten, Says: "written otherwise, and means the same"}}
	}
	return entry, true
}

// changes compares an object by what its kind means.
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
	switch {
	case ref.Group == "apiextensions.k8s.io" && ref.Kind == "CustomResourceDefinition":
		return CRDs
	case ref.Group == rbacGroup:
		return RBAC
	case ref.Group == "admissionregistration.k8s.io" && (ref.Kind == "ValidatingWebhookConfiguration" || ref.Kind == "MutatingWebhookConfiguration"):
		return Webhooks
	}
	return Objects
}

func added(ref Ref) Change {
	change := Change{Rule: "object/added", Level: Plain, Says: "is new"}
	if areaOf(ref) == Webhooks {
		change.Level = Review
		change.Means = "Requests are sent to the provider that were not before."
	}
	return change
}

func removed(ref Ref) Change {
	change := Change{Rule: "object/removed", Level: Review, Says: "is gone"}
	switch areaOf(ref) {
	case CRDs:
		change.Level = Breaking
		change.Means = "A CRD without objects is deleted. One with objects stays, and nobody looks after them."
	case RBAC:
		change.Level = Plain // what somebody lost by that is told with the access
	case Webhooks:
		change.Means = "Requests are no longer checked, or defaulted, by the provider."
	default:
	}
	return change
}

// settle gives an entry the level of what is not folded, or of all if everything is.
func (e *Entry) settle() {
	for _, change := range e.Changes {
		if change.Fold == "" {
			e.Level = worse(e.Level, change.Level)
		}
	}
	if e.Level == None {
		e.Folded, e.Level = true, e.worst()
	}
}

// worst is the worst level of all changes, those that are folded too.
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
		cell.count(entry.Is, entry.Folded, entry.worst())
		cells[entry.Area] = cell
	}
	for _, image := range p.ImageChanges {
		cell := cells[Images]
		cell.count(image.Is, false, image.Level)
		cells[Images] = cell
	}
	return cells
}

func (c *Cell) count(is Is, folded bool, level Level) {
	c.Level = worse(c.Level, level)
	switch {
	case folded:
		c.Folded++
	case is == Added:
		c.Added++
	case is == Removed:
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
			if image.Level != Noise { // which the fields have
				v.count(Change{Level: image.Level})
			}
		}
	}
	for _, access := range report.Access {
		v.Widening += len(access.Gained)
		if len(access.Gained) > 0 {
			v.Level = worse(v.Level, Widening)
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
	case change.Level == Review:
		v.Review++
	case change.Level == Plain:
		v.Plain++
	}
}
