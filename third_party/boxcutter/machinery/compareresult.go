// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"
	"iter"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// CompareResult is the difference between a desired and an actual object.
type CompareResult struct {
	// ConflictingMangers are the other field managers that own desired fields which
	// the field owner does not own, with these fields.
	ConflictingMangers []CompareResultManagedFields
	// OtherManagers are the other field managers with their remaining fields.
	OtherManagers []CompareResultManagedFields
	// DesiredFieldSet are the desired fields.
	DesiredFieldSet *fieldpath.Set
	// Comparison compares the desired object with the actual one: a "removed" field
	// is desired and missing, an "added" field is present and not desired.
	Comparison *typed.Comparison
}

// CompareResultManagedFields are the fields of a field manager.
type CompareResultManagedFields struct {
	// Manager is the name of the field manager.
	Manager string
	// Fields are its fields.
	Fields *fieldpath.Set
}

// IsConflict reports whether another field manager owns desired fields.
func (d CompareResult) IsConflict() bool { return len(d.ConflictingMangers) > 0 }

// Modified returns the paths of the desired fields with another value, followed
// by the missing ones.
func (d CompareResult) Modified() []string {
	if d.Comparison == nil {
		return nil
	}
	return append(paths(d.Comparison.Modified), paths(d.Comparison.Removed)...)
}

// differs reports whether a desired field is missing or has another value.
func (d CompareResult) differs() bool { return len(d.Modified()) > 0 }

// String lists the conflicting field managers, the other ones and the fields that
// differ.
func (d CompareResult) String() string {
	var text strings.Builder
	describeManagers(&text, "Conflicts", d.ConflictingMangers)
	describeManagers(&text, "Other", d.OtherManagers)
	describeComparison(&text, d.Comparison)
	return text.String()
}

func describeManagers(text *strings.Builder, title string, managers []CompareResultManagedFields) {
	var fields strings.Builder
	for _, manager := range managers {
		describeFields(&fields, fmt.Sprintf("%q", manager.Manager), manager.Fields)
	}
	if fields.Len() > 0 {
		fmt.Fprintf(text, "%s:\n%s", title, fields.String())
	}
}

func describeComparison(text *strings.Builder, comparison *typed.Comparison) {
	if comparison == nil || comparison.IsSame() {
		return
	}
	text.WriteString("Comparison:\n")
	describeFields(text, "Added", comparison.Added)
	describeFields(text, "Modified", comparison.Modified)
	describeFields(text, "Removed", comparison.Removed)
}

func describeFields(text *strings.Builder, title string, fields *fieldpath.Set) {
	leaves := paths(fields)
	if len(leaves) == 0 {
		return
	}
	fmt.Fprintf(text, "- %s:\n", title)
	for _, path := range leaves {
		fmt.Fprintf(text, "  %s\n", path)
	}
}

// paths returns the leaves of a set; set may be nil.
func paths(set *fieldpath.Set) []string {
	var out []string
	for path := range leaves(set) {
		out = append(out, path.String())
	}
	return out
}

// leaves iterates over the leaves of a set; set may be nil.
func leaves(set *fieldpath.Set) iter.Seq[fieldpath.Path] {
	if set == nil {
		set = &fieldpath.Set{}
	}
	return set.Leaves().All()
}
