// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// subject selects the kinds that a rule about fields checks: those with a role, and with a contract if one is set.
type subject struct {
	role     role
	contract string
}

// of returns the kinds whose fields are known.
func (s subject) of(b *Bundle) []*definition {
	return filter(b.definitionsWithRole(s.role), func(d *definition) bool {
		return d.Schema.Exists() && (s.contract == "" || s.contract == d.Contract)
	})
}

// requireTyped returns a check that a field exists and has one of the types.
func (s subject) requireTyped(field string, types ...string) func(*Bundle) []Finding {
	return eachDefinition(s.of, func(d *definition) []Finding {
		return append(d.missing(field), d.mistyped(field, types...)...)
	})
}

// require returns a check that fields exist, of any type.
func (s subject) require(fields ...string) func(*Bundle) []Finding {
	return eachDefinition(s.of, func(d *definition) []Finding { return d.missing(fields...) })
}

// checkTypes returns a check of the types of existing fields: pairs of a field and its type.
func (s subject) checkTypes(pairs ...string) func(*Bundle) []Finding {
	return eachDefinition(s.of, func(d *definition) (findings []Finding) {
		for pair := range slices.Chunk(pairs, 2) {
			findings = append(findings, d.mistyped(pair[0], pair[1])...)
		}
		return findings
	})
}

// optional returns a check that a field that a controller sets later is not required.
func (s subject) optional(field string) func(*Bundle) []Finding {
	parent, name := field[:strings.LastIndex(field, ".")], field[strings.LastIndex(field, ".")+1:]
	return eachDefinition(s.of, func(d *definition) (findings []Finding) {
		object, _ := fieldOf(d.Schema, parent)
		for _, required := range object.At("required").Items() {
			if required.Text() == name {
				findings = append(findings, required.finding("%s is required in version %s", field, d.Version))
			}
		}
		return findings
	})
}

// whenThere limits a rule about other fields to kinds that have a field.
func (s subject) whenThere(field string, check func(*definition) []Finding) func(*Bundle) []Finding {
	return eachDefinition(s.of, func(d *definition) []Finding {
		if !d.has(field) {
			return nil
		}
		return check(d)
	})
}

// deprecated returns a check that fields of an older contract are absent.
func (s subject) deprecated(fields ...string) func(*Bundle) []Finding {
	return eachDefinition(s.of, func(d *definition) (findings []Finding) {
		for _, field := range fields {
			if found, _ := fieldOf(d.Schema, field); found.Exists() {
				findings = append(findings, found.finding("deprecated field %s in version %s", field, d.Version))
			}
		}
		return findings
	})
}
