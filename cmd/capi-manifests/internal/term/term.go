// SPDX-License-Identifier: Apache-2.0

// Package term writes for terminals and logs: colors, tables, progress, and text
// without control characters.
package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
)

// Printable replaces control characters and characters that change the direction of text, so that
// the content of an image cannot control a terminal. The result is one line: the lines of text are separated by "; ".
func Printable(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return PrintableLines(strings.ReplaceAll(strings.Join(lines, "; "), "\t", string(unicode.ReplacementChar)))
}

// PrintableLines is Printable for text with several lines and tabs.
func PrintableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	file, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// Redraws reports whether w is a terminal that moves its cursor.
func Redraws(w io.Writer) bool { return IsTerminal(w) && os.Getenv("TERM") != "dumb" }

// Size returns the numbers of columns and lines of the terminal that w writes to; 0 if it is none.
func Size(w io.Writer) (width, height int) {
	if file, isFile := w.(*os.File); isFile {
		width, height, _ = term.GetSize(int(file.Fd())) // 0 with an error
	}
	return width, height
}

// EncodeJSON writes data as JSON. Characters that are not printable are escaped, so that they
// cannot control a terminal and programs read them unchanged.
func EncodeJSON(out *bytes.Buffer, data any) error {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(data); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	for _, r := range plain.String() {
		if r == '\n' || unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(out, "\\u%04x", unit)
		}
	}
	return nil
}

// Optional returns a flag followed by its value; empty if the value is empty.
func Optional(flag, value string) string {
	return strings.TrimSuffix(flag+value, flag)
}

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
