// SPDX-License-Identifier: Apache-2.0

// Package term writes for terminals and logs: colors, tables, progress, and text
// without control characters.
package term

import (
	"io"
	"os"
)

// ColorMode selects when text is colored: always, never, or, as its zero value auto, on a terminal unless NO_COLOR is set.
type ColorMode string

// Enabled reports whether text for w is colored. See https://no-color.org.
func (c ColorMode) Enabled(w io.Writer) bool {
	switch c {
	case "always":
		return true
	case "never":
		return false
	}
	return Redraws(w) && os.Getenv("NO_COLOR") == ""
}

// Codes of terminals: "select graphic rendition" of ECMA-48.
const (
	Bold  = "1"
	Faint = "2"
)

// Painter returns a function that colors a text, or returns it unchanged.
func Painter(color bool) func(code, text string) string {
	return func(code, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
}
