// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/variable"
)

// addRequirements reports the changes that depend on all objects of a provider: new variables
// without a default, and lost permissions for its own API groups.
func (p *pair) addRequirements(change *ProviderChange) {
	if !p.inA || !p.inB {
		return
	}
	before := map[string]bool{}
	for _, o := range p.a.Objects {
		for _, name := range requiredVariables(o) {
			before[name] = true
		}
	}
	own := ownGroups(p.a.Objects, p.b.Objects)
	after := byRef(p.b.Objects)
	for i := range change.Entries {
		entry := &change.Entries[i]
		for j := range entry.Changes {
			entry.Changes[j].markLost(own)
		}
		o := after[entry.Object]
		if o == nil {
			continue
		}
		for _, name := range requiredVariables(o) {
			if !before[name] {
				entry.Changes = append(entry.Changes, Change{
					Rule: "variable/required", Level: Review, Message: "requires a value for variable " + name, To: name,
					Consequence: "The variable has no default. The installer creates no revision until the cluster provides a value.",
				})
			}
		}
	}
}

// markLost requires a review of a lost permission for the provider's own API groups.
func (c *Change) markLost(own []string) {
	permission, isPermission := c.From.(Permission)
	if c.Rule == "rbac/lost" && isPermission && slices.Contains(own, permission.Group) {
		c.Level = Review
		c.Consequence = "The provider defines this API group: its controllers, or those of Cluster API, may fail without the permission."
	}
}

// requiredVariables returns the names of an object's variables without a default.
func requiredVariables(o *unstructured.Unstructured) (names []string) {
	text, err := json.Marshal(o.Object)
	if err != nil || !variable.Contains(text) {
		return nil
	}
	for _, v := range variable.Variables(text) {
		if v.Required {
			names = append(names, v.Name)
		}
	}
	return names
}

// ownGroups returns the API groups of the CRDs among objects.
func ownGroups(sides ...[]*unstructured.Unstructured) (groups []string) {
	for _, o := range slices.Concat(sides...) {
		if areaOf(refOf(o)) == CRDs {
			groups = append(groups, textAt(o.Object, "spec", "group"))
		}
	}
	return groups
}
