// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// levelColors are the colors of levels on a terminal.
var levelColors = map[diff.Level]string{diff.Breaking: "1;31", diff.Widening: "1;35", diff.Review: "33", diff.Plain: "", diff.Noise: term.Faint, diff.None: term.Faint}

// levelMarks mark the level of a cell without color.
var levelMarks = map[diff.Level]string{diff.Breaking: " !", diff.Widening: " ^", diff.Review: " ?"}

// text writes the report for a terminal: the verdict, the matrix, and then each provider.
func (d Report) text(out *bytes.Buffer, full, color bool) {
	w := &textReport{out: out, paint: term.Painter(color), full: full}
	w.line("%s  %s -> %s", w.level(d.Verdict.Level, strings.ToUpper(verdictWords[d.Verdict.Level])), d.A, d.B)
	if d.Verdict.Level == diff.None {
		return
	}
	w.line("%s", Counts(d.Verdict))
	w.matrix(d.Providers)
	for _, p := range d.Providers {
		if !quiet(p) {
			w.provider(p)
		}
	}
}

// textReport writes lines. It makes arguments printable before it colors them.
type textReport struct {
	out   *bytes.Buffer
	paint func(code, text string) string
	full  bool
}

// painted is printable text with color codes.
type painted string

// line writes a line of printable text.
func (w *textReport) line(format string, args ...any) {
	for i, arg := range args {
		if text, isText := arg.(string); isText {
			args[i] = term.Printable(text)
		}
	}
	w.out.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (w *textReport) level(level diff.Level, text string) painted {
	if code := levelColors[level]; code != "" {
		return painted(w.paint(code, term.Printable(text)))
	}
	return painted(term.Printable(text))
}

func (w *textReport) heading(text string) {
	w.out.WriteString("\n" + w.paint(term.Bold, term.Printable(text)) + "\n")
}

// cell is a text in a table, with the level that determines its color.
type cell struct {
	text  string
	level diff.Level
}

func (w *textReport) matrix(providers []diff.ProviderChange) {
	header := []cell{{"PROVIDER", diff.Plain}, {"VERSION", diff.Plain}}
	for _, area := range diff.Areas() {
		header = append(header, cell{strings.ToUpper(areaWords[area]), diff.Plain})
	}
	rows := [][]cell{header}
	for _, p := range providers {
		row := []cell{{p.Name, p.Level}, {versionsText(p, " -> "), diff.Plain}}
		for _, area := range diff.Areas() {
			c := p.Cells[area]
			row = append(row, cell{cellText(c) + levelMarks[c.Level], c.Level})
		}
		rows = append(rows, row)
	}
	w.out.WriteString("\n")
	w.table(rows)
	w.out.WriteString(w.paint(term.Faint, "+ added  - removed  ~ changed  (n) folded  ! breaking  ^ widening  ? review") + "\n")
}

// table aligns columns by visible characters, without color codes.
func (w *textReport) table(rows [][]cell) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(term.Printable(c.text)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(string(w.level(c.level, c.text)))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(term.Printable(c.text))+2))
			}
		}
		w.out.WriteString(line.String() + "\n")
	}
}

func (w *textReport) provider(p diff.ProviderChange) {
	w.heading(p.Name + " " + versionsText(p, " -> "))
	told := slices.ContainsFunc(p.ImageChanges, func(c diff.ImageChange) bool {
		return c.Level != diff.Noise && c.From == p.Images[0] && c.To == p.Images[1]
	})
	if imageDiffers(p) && !told {
		w.line("  image  %s -> %s", cmp.Or(p.Images[0], "none"), cmp.Or(p.Images[1], "none"))
	}
	for _, image := range p.ImageChanges {
		if image.Level != diff.Noise {
			w.line("  %s  %s -> %s: %s (%s)", w.level(image.Level, levelWords[image.Level]), cmp.Or(image.From, "none"), cmp.Or(image.To, "none"), image.Message, strings.Join(image.Containers, ", "))
		}
	}
	for _, entry := range shown(p.Entries, w.full) {
		w.entry(entry)
	}
	for i, fold := range p.Folds {
		if i == 0 {
			w.line("  Repeated changes, and changes without consequences:")
		}
		w.fold(fold)
	}
}

func (w *textReport) entry(e diff.Entry) {
	mark := map[diff.Outcome]string{diff.Added: "+", diff.Removed: "-", diff.Changed: "~"}[e.Outcome]
	w.line("  %s %s", w.level(e.Level, mark), e.Object.String())
	for _, change := range unfolded(e.Changes, w.full) {
		if change.Rule == "object/added" && change.Consequence == "" {
			continue // shown by the mark
		}
		w.line("      %s %s", w.level(change.Level, fmt.Sprintf("%-8s", levelWords[change.Level])), headline(change)+valuesText(change))
		if change.Consequence != "" {
			w.line("               %s", change.Consequence)
		}
	}
}

// valuesText formats the values of a change, for the end of its line.
func valuesText(c diff.Change) string {
	switch {
	case !hasValues(c):
		return ""
	case c.From == nil:
		return ": " + valueText(c.To)
	case c.To == nil:
		return ": " + valueText(c.From)
	}
	return ": " + valueText(c.From) + " -> " + valueText(c.To)
}

func (w *textReport) fold(f diff.Fold) {
	w.line("    %s", w.level(f.Change.Level, fmt.Sprintf("%s: %s%s", foldCount(f), headline(f.Change), valuesText(f.Change))))
	if f.Change.Consequence != "" {
		w.line("        %s", f.Change.Consequence)
	}
}
