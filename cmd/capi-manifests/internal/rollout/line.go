// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"unicode/utf8"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Line is a line of text for a terminal, in parts of one color.
type Line []Part

// Part is printable text with the code of its color; an empty code is the color of the terminal.
type Part struct{ Code, Text string }

// Paint returns the line, with the codes of its colors if color is set.
func (l Line) Paint(color bool) string {
	paint := term.Painter(color)
	var out strings.Builder
	for _, part := range l {
		if part.Code == "" {
			out.WriteString(part.Text)
		} else {
			out.WriteString(paint(part.Code, part.Text))
		}
	}
	if color {
		return out.String()
	}
	return strings.TrimRight(out.String(), " ")
}

// width returns the number of characters of the line.
func (l Line) width() (characters int) {
	for _, part := range l {
		characters += utf8.RuneCountInString(part.Text)
	}
	return characters
}

// wrap returns a text in lines of at most width characters; 0 is no limit. They break between words, and inside a word that is
// longer than a line.
func wrap(text string, width int) (lines []string) {
	if width <= 0 {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for runes := []rune(line); len(runes) > width; runes = []rune(line) {
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
	}
	return append(lines, line)
}
