// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Compare reports the changes from a to b. Providers are in the order of b, followed
// by those that only a has. The order of objects in the input has no effect.
func Compare(a, b []Provider) Report {
	access := access{bindingsOf(a), bindingsOf(b)}
	report := Report{Verdict: countsOf(), Providers: []ProviderChange{}}
	for _, p := range pairProviders(a, b) {
		change := p.compare(access)
		for level, count := range change.Counts {
			report.Verdict[level] += count
		}
		report.Providers = append(report.Providers, change)
	}
	return report
}

// pair is a provider on both sides; a missing one is nil.
type pair struct {
	a, b    *Provider
	objects []objectPair
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
	for i := range b {
		pairs = append(pairs, &pair{b: &b[i]})
	}
	for i := range a {
		at := slices.IndexFunc(pairs, func(p *pair) bool { return p.a == nil && p.b.Name == a[i].Name && p.b.Type == a[i].Type })
		if at < 0 {
			at = len(pairs)
			pairs = append(pairs, &pair{})
		}
		pairs[at].a = &a[i]
	}
	moved := map[Ref]objectPair{} // removed from a provider
	for _, p := range pairs {
		before, after := byRef(p.a), byRef(p.b)
		for _, ref := range slices.SortedFunc(maps.Keys(union(before, after)), Ref.compare) {
			o := objectPair{ref: ref, a: before[ref], b: after[ref]}
			if _, duplicate := moved[ref]; o.b == nil && !duplicate {
				o.from = p.a.Name
				moved[ref] = o
			}
			p.objects = append(p.objects, o)
		}
	}
	joined := map[Ref]bool{}
	for _, p := range pairs {
		for i, o := range p.objects {
			if before, found := moved[o.ref]; found && o.a == nil && !joined[o.ref] {
				p.objects[i].a, p.objects[i].from, joined[o.ref] = before.a, before.from, true
			}
		}
	}
	for _, p := range pairs {
		p.objects = slices.DeleteFunc(p.objects, func(o objectPair) bool {
			return o.b == nil && joined[o.ref] && o.a == moved[o.ref].a
		})
	}
	return pairs
}

func byRef(p *Provider) map[Ref]*unstructured.Unstructured {
	refs := map[Ref]*unstructured.Unstructured{}
	for _, o := range p.objects() {
		refs[refOf(o)] = o
	}
	return refs
}

// objects returns the objects of a provider; none if it is missing.
func (p *Provider) objects() []*unstructured.Unstructured {
	if p == nil {
		return nil
	}
	return p.Objects
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

func (p *pair) compare(access access) ProviderChange {
	a, b := cmp.Or(p.a, &Provider{}), cmp.Or(p.b, &Provider{})
	change := ProviderChange{
		Name: cmp.Or(b.Name, a.Name), Type: cmp.Or(b.Type, a.Type),
		Versions: [2]string{a.Version, b.Version}, Images: [2]string{a.Image, b.Image},
	}
	found := &causes{byKey: map[string]*Change{}}
	switch {
	case p.a == nil:
		change.Outcome = Added
		found.add(Change{Rule: "provider/added", Level: Plain, Message: "provider added", To: optional(b.Image)})
	case p.b == nil:
		change.Outcome = Removed
		found.add(Change{Rule: "provider/removed", Level: Review, Message: "provider removed", From: optional(a.Image)})
	default:
		change.Outcome = Changed
		if a.Version != b.Version {
			found.add(Change{Rule: "provider/version", Level: Noise, Message: "version", From: optional(a.Version), To: optional(b.Version)})
		}
		if a.Image != b.Image && a.Image != "" && b.Image != "" { // a directory has no image
			found.add(imageChange(a.Image, b.Image))
		}
	}
	p.compareObjects(access, found)
	change.Changes = found.sorted()
	change.Counts = countsOf(change.Changes...)
	if len(change.Changes) == 0 {
		change.Outcome = Same
	}
	return change
}

// optional returns nil for an empty text.
func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// compareObjects adds the changes of objects. Some depend on the other objects of the provider: images, lost permissions for
// its API groups, and new variables without a default.
func (p *pair) compareObjects(access access, found *causes) {
	images, variables, own := p.imageChanges(), requiredVariables(p.a.objects()...), ownGroups(slices.Concat(p.a.objects(), p.b.objects()))
	for _, o := range p.objects {
		changes := o.changes(access)
		if p.a != nil {
			changes = append(changes, otherRegistries(o, p.a.Objects)...)
		}
		for _, change := range changes {
			change.markLost(own)
			if image, replaced := images[[2]string{compact(change.From), compact(change.To)}]; replaced && change.Rule == "field" {
				image.Path = change.Path
				change = image
			}
			found.add(change, o.ref)
		}
		if p.a == nil || o.b == nil {
			continue
		}
		for _, name := range requiredVariables(o.b) {
			if !slices.Contains(variables, name) {
				found.add(Change{
					Rule: "variable/required", Level: Review, Message: "requires a value for variable " + name, To: name,
					Consequence: "The variable has no default. The installer creates no revision until the cluster provides a value.",
				}, o.ref)
			}
		}
	}
}

// changes returns the differences of an object; none if both sides are equal.
func (o objectPair) changes(access access) (changes []Change) {
	if o.from != "" && o.b != nil {
		changes = append(changes, Change{Rule: "object/moved", Level: Plain, Message: "moved from another provider", From: o.from})
	}
	switch {
	case o.a == nil:
		changes = append(changes, added(o.ref))
	case o.b == nil:
		changes = append(changes, removed(o.ref))
	case object.Equal(o.a.Object, o.b.Object):
		return changes
	case o.ref.isCRD():
		changes = append(changes, crdChanges(o.ref, o.a, o.b)...)
	default:
		changes = append(changes, objectChanges(o.ref, o.a.Object, o.b.Object)...)
	}
	if o.ref.Group == object.RBACGroup {
		changes = append(changes, access.changes(o)...)
	}
	if len(changes) == 0 {
		changes = []Change{{Rule: "object/rewritten", Level: Noise, Message: "rewritten without semantic change"}}
	}
	return changes
}

func added(ref Ref) Change {
	change := Change{Rule: "object/added", Level: Plain, Message: ref.Kind + " added"}
	if ref.isWebhook() {
		change.Level = Review
		change.Consequence = "The API server sends requests to the provider that it did not send before."
	}
	return change
}

func removed(ref Ref) Change {
	change := Change{Rule: "object/removed", Level: Review, Message: ref.Kind + " removed"}
	switch {
	case ref.isCRD():
		change.Level = Breaking
		change.Consequence = "A CRD without instances is deleted. A CRD with instances is retained, but no controller reconciles them."
	case ref.Group == object.RBACGroup:
		change.Level = Plain // lost permissions are reported separately
	case ref.isWebhook():
		change.Consequence = "The provider no longer validates or defaults these requests."
	}
	return change
}

// markLost requires a review of a lost permission for the provider's own API groups.
func (c *Change) markLost(own []string) {
	permission, isPermission := c.From.(Permission)
	if c.Rule == "rbac/lost" && isPermission && slices.Contains(own, permission.Group) {
		c.Level = Review
		c.Consequence = "The provider defines this API group: its controllers, or those of Cluster API, may fail without the permission."
	}
}

// ownGroups returns the API groups of the CRDs among objects.
func ownGroups(objects []*unstructured.Unstructured) (groups []string) {
	for _, o := range objects {
		if refOf(o).isCRD() {
			groups = append(groups, textAt(o.Object, "spec", "group"))
		}
	}
	return groups
}

// requiredVariables returns the names of the variables of objects without a default.
func requiredVariables(objects ...*unstructured.Unstructured) (names []string) {
	for _, o := range objects {
		text, err := json.Marshal(o.Object)
		if err != nil || !variable.Contains(text) {
			continue
		}
		for _, v := range variable.Variables(text) {
			if v.Required {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

// causes are changes by their cause, in the order of their first places.
type causes struct {
	byKey map[string]*Change
	list  []*Change
}

// add adds a change of an object. Differences of the same rule and field name with the same values have one cause.
func (c *causes) add(change Change, objects ...Ref) {
	end := ""
	if path := segment.FindAllString(change.Path, -1); change.Rule != "image" && change.Rule != "description" && len(path) > 0 {
		end = path[len(path)-1]
	}
	key := strings.Join([]string{change.Rule, string(change.Level), end, change.Message, change.Consequence, compact(change.From), compact(change.To)}, "\x00")
	first := c.byKey[key]
	if first == nil {
		first = &change
		first.Places, c.byKey[key], c.list = []Place{}, first, append(c.list, first)
	}
	for _, ref := range objects {
		first.Places = append(first.Places, Place{ref, change.Version, change.Path})
	}
	if first.Version != change.Version {
		first.Version = ""
	}
	first.Path = commonEnd(first.Path, change.Path)
}

// commonEnd returns the common path of two paths: their last segments after "*" if they differ, and nothing if these differ too.
func commonEnd(a, b string) string {
	if a == b {
		return a
	}
	first, second, end := segment.FindAllString(a, -1), segment.FindAllString(b, -1), ""
	for n := 1; n <= min(len(first), len(second)) && first[len(first)-n] == second[len(second)-n]; n++ {
		name := first[len(first)-n]
		if !strings.HasPrefix(name, "[") {
			name = "." + name
		}
		end = name + end
	}
	if end == "" {
		return ""
	}
	return "*" + end
}

// sorted returns the changes: removed versions and gained permissions first, and then by level.
func (c *causes) sorted() []Change {
	changes := []Change{}
	for _, change := range c.list {
		changes = append(changes, *change)
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), -cmp.Compare(len(a.Places), len(b.Places)))
	})
	return changes
}

func (c Change) rank() int {
	switch {
	case c.Level == Breaking && slices.Contains([]string{"object/removed", "crd/version-removed", "crd/stored-version-removed", "crd/version-unserved"}, c.Rule):
		return -2
	case c.Level == Widening:
		return -1
	}
	return slices.Index(Levels(), c.Level)
}
