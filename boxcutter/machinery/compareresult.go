// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"
	"iter"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// CompareResult says how a desired object differs from the actual one.
type CompareResult struct {
	// ConflictingMangers are the other managers that hold fields we want and do
	// not hold, with those fields.
	ConflictingMangers []CompareResultManagedFields
	// OtherManagers are the other managers with the fields they hold besides.
	OtherManagers []CompareResultManagedFields
	// DesiredFieldSet are the fields that we want.
	DesiredFieldSet *fieldpath.Set
	// Comparison goes from the desired object to the actual one: what is
	// "removed" is desired and not there, what is "added" is there and not
	// desired.
	Comparison *typed.Comparison
}

// CompareResultManagedFields are fields that somebody holds.
type CompareResultManagedFields struct {
	// Manager is the name of the field manager.
	Manager string
	// Fields are what it holds.
	Fields *fieldpath.Set
}

// IsConflict says whether somebody else holds fields that we want.
func (d CompareResult) IsConflict() bool { return len(d.ConflictingMangers) > 0 }

// Modified returns the paths of the fields that are not as desired: those with
// another value, then those that are missing.
func (d CompareResult) Modified() []string {
	if d.Comparison == nil {
		return nil
	}
	return append(paths(d.Comparison.Modified), paths(d.Comparison.Removed)...)
}

// differs says whether a field that we want is not as desired.
func (d CompareResult) differs() bool { return len(d.Modified()) > 0 }

// String describes the differences to a person.
func (d CompareResult) String() string {
	var text strings.Builder
	for _, manager := range d.ConflictingMangers {
		describeFields(&text, fmt.Sprintf("Conflicting manager %q", manager.Manager), manager.Fields)
	}
	for _, manager := range d.OtherManagers {
		describeFields(&text, fmt.Sprintf("Other manager %q", manager.Manager), manager.Fields)
	}
	if d.Comparison != nil {
		describeFields(&text, "Added", d.Comparison.Added)
		describeFields(&text, "Modified", d.Comparison.Modified)
		describeFields(&text, "Removed", d.Comparison.Removed)
	}
	return text.String()
}

func describeFields(text *strings.Builder, title string, fields *fieldpath.Set) {
	leaves := paths(fields)
	if len(leaves) == 0 {
		return
	}
	fmt.Fprintf(text, "%s:\n", title)
	for _, path := range leaves {
		fmt.Fprintf(text, "  %s\n", path)
	}
}

// paths lists the leaves of a set, which may be nil.
func paths(set *fieldpath.Set) []string {
	var out []string
	for path := range leaves(set) {
		out = append(out, path.String())
	}
	return out
}

// leaves goes through the leaves of a set, which may be nil.
func leaves(set *fieldpath.Set) iter.Seq[fieldpath.Path] {
	if set == nil {
		set = &fieldpath.Set{}
	}
	return set.Leaves().All()
}
