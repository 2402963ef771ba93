// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// levels describes the levels: the word of a verdict, of a change, and of one and several changes, a color and an icon.
var levels = map[diff.Level]struct{ Verdict, Word, One, More, Color, Icon string }{
	diff.Breaking: {"Breaking", "breaking", "breaking change", "breaking changes", "1;31", "✖"},
	diff.Widening: {"Wider permissions", "widening", "wider permission", "wider permissions", "1;35", "▲"},
	diff.Review:   {"Review required", "review", "change to review", "changes to review", "33", "●"},
	diff.Plain:    {"Changed", "change", "other change", "other changes", "", "■"},
	diff.Noise:    {"Only noise", "noise", "change without consequences", "changes without consequences", term.Faint, "·"},
	diff.None:     {"Same", "same", "", "", "", "✔"},
}

// Counts formats the counts of a report: "2 breaking changes, 1 wider permission".
func Counts(counts diff.Counts) string {
	var parts []string
	for _, level := range diff.Levels() {
		if counts[level] > 0 {
			parts = append(parts, term.Plural(counts[level], levels[level].One, levels[level].More))
		}
	}
	if len(parts) == 0 {
		return "no differences"
	}
	return strings.Join(parts, ", ")
}

// text writes the report for a terminal: the verdict, a table of the providers, and then the changes of each.
func (d Report) text(out *bytes.Buffer, full, color bool) {
	paint, worst := term.Painter(color), d.Verdict.Worst()
	colored := func(level diff.Level, text string) string {
		if code := levels[level].Color; code != "" {
			return paint(code, text)
		}
		return text
	}
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	line("%s  %s -> %s", colored(worst, strings.ToUpper(levels[worst].Verdict)), term.Printable(d.A), term.Printable(d.B))
	if worst == diff.None {
		return
	}
	line("%s", Counts(d.Verdict))
	header := []string{"PROVIDER", "VERSION"}
	for _, level := range diff.Levels() {
		header = append(header, strings.ToUpper(levels[level].Word))
	}
	term.Columns(out, header, term.Rows(d.Providers, func(p diff.ProviderChange) []string {
		row := []string{term.Printable(p.Name), term.Printable(versionsText(p, " -> "))}
		for _, level := range diff.Levels() {
			row = append(row, countText(p.Counts[level]))
		}
		return row
	}))
	for _, p := range d.Providers {
		if quiet(p) {
			continue
		}
		line("\n%s", paint(term.Bold, term.Printable(p.Name+" "+versionsText(p, " -> "))))
		for _, change := range p.Changes {
			line("  %s %s", colored(change.Level, fmt.Sprintf("%-8s", levels[change.Level].Word)), term.Printable(headline(change)+valuesText(change)))
			for _, detail := range []string{strings.Join(placesOf(change, full), ", "), change.Consequence} {
				if detail != "" {
					line("           %s", term.Printable(detail))
				}
			}
		}
	}
}

func countText(count int) string {
	if count == 0 {
		return "-"
	}
	return fmt.Sprint(count)
}

// versionsText formats a provider's version, or both versions with an arrow.
func versionsText(p diff.ProviderChange, arrow string) string {
	switch before, after := p.Versions[0], p.Versions[1]; {
	case p.Outcome == diff.Added:
		return "new: " + term.OrNone(after)
	case p.Outcome == diff.Removed:
		return "removed: " + term.OrNone(before)
	case before == after:
		return term.OrNone(after)
	default:
		return term.OrNone(before) + arrow + term.OrNone(after)
	}
}

// quiet reports whether a provider has no changes.
func quiet(p diff.ProviderChange) bool { return p.Outcome == diff.Same }

// headline formats a change in one line, without its values: "v1beta2 spec.region:
// field removed".
func headline(c diff.Change) string {
	where := where(c)
	switch {
	case where == "":
		return c.Message
	case c.Message == "changed":
		return where
	case c.Message == "added", c.Message == "removed":
		return where + " " + c.Message
	}
	return where + ": " + c.Message
}

// where returns the version and the path of a change. The version is omitted if the message names it.
func where(c diff.Change) string {
	if strings.Contains(c.Message, c.Version) {
		return c.Path
	}
	return strings.TrimSpace(c.Version + " " + c.Path)
}

// few is the number of places that are shown of a change.
const few = 3

// placesOf returns the places of a change: all objects that were added or removed, and the first of others unless full.
func placesOf(c diff.Change, full bool) (places []string) {
	for _, place := range c.Places {
		text := place.Object.String()
		if place.Version != c.Version {
			text += " " + place.Version
		}
		if place.Path != c.Path {
			text += " " + place.Path
		}
		if !slices.Contains(places, text) {
			places = append(places, text)
		}
	}
	if more := len(places) - few; more > 0 && !full && !strings.HasPrefix(c.Rule, "object/") {
		return append(places[:few], fmt.Sprintf("and %d more", more))
	}
	return places
}

// hasValues reports whether a change is shown with its values.
func hasValues(c diff.Change) bool {
	return (c.Path != "" || c.Rule == "image" || strings.HasPrefix(c.Rule, "provider/")) && (c.From != nil || c.To != nil) && !strings.HasPrefix(c.Rule, "rbac/") && c.Rule != "webhook/rules"
}

// valuesText formats the values of a change, for the end of its line.
func valuesText(c diff.Change) string {
	var values []string
	for _, value := range []any{c.From, c.To} {
		if value != nil && hasValues(c) {
			values = append(values, valueText(value))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return ": " + strings.Join(values, " -> ")
}

// widest is the maximum number of characters of a value in a line.
const widest = 120

// valueText formats a value in one line, as JSON, shortened.
func valueText(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "?" // values of YAML can be encoded
	}
	text := []rune(strings.TrimSpace(out.String()))
	if len(text) > widest {
		return string(text[:widest]) + "…"
	}
	return string(text)
}
