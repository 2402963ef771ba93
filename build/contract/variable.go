// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"github.com/capi-installer/capi-installer/internal/variable"
)

// HasVariable reports whether a text may depend on a variable, whose value is unknown.
func HasVariable(text string) bool { return variable.Contains([]byte(text)) }

// withDefaults replaces variables in a text by their defaults, including variables within defaults, and returns the
// variables without default. It neither adds nor removes lines.
func withDefaults(text []byte) ([]byte, []Variable) {
	text, uses := variable.ApplyDefaults(text)
	var required []Variable
	for _, use := range uses {
		required = append(required, Variable{use.Name, use.Line})
	}
	return text, required
}

// ObjectAt returns the object on a line; nil before the first object.
func (b *Bundle) ObjectAt(line int) *Object {
	var at *Object
	for _, o := range b.Objects {
		if o.Line() > line {
			break
		}
		at = o
	}
	return at
}
