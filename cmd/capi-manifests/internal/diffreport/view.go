// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// verdictWords describe verdicts.
var verdictWords = map[diff.Level]string{
	diff.Breaking: "Breaking", diff.Widening: "Wider permissions", diff.Review: "Review required",
	diff.Plain: "Changed", diff.Noise: "Only noise", diff.None: "Same",
}

// levelWords name the level of a change.
var levelWords = map[diff.Level]string{
	diff.Breaking: "breaking", diff.Widening: "widening", diff.Review: "review", diff.Plain: "change", diff.Noise: "noise", diff.None: "same",
}

// areaWords are the headings of the matrix.
var areaWords = map[diff.Area]string{diff.CRDs: "CRDs", diff.RBAC: "RBAC", diff.Webhooks: "Webhooks", diff.Images: "Images", diff.Objects: "Objects"}

// count is a part of a verdict: "2 breaking changes".
type count struct {
	Count int
	Text  string
	Level diff.Level
}

// countList returns the non-zero counts of a verdict.
func countList(v diff.Verdict) (counts []count) {
	for _, part := range []struct {
		level     diff.Level
		count     int
		one, more string
	}{
		{diff.Breaking, v.Breaking, "breaking change", "breaking changes"}, {diff.Widening, v.Widening, "wider permission", "wider permissions"},
		{diff.Review, v.Review, "change to review", "changes to review"}, {diff.Plain, v.Plain, "other change", "other changes"}, {diff.Noise, v.Folded, "folded", "folded"},
	} {
		switch {
		case part.count == 1:
			counts = append(counts, count{1, part.one, part.level})
		case part.count > 1:
			counts = append(counts, count{part.count, part.more, part.level})
		}
	}
	return counts
}

// Counts formats the counts of a verdict: "2 breaking changes, 1 permission
// gained".
func Counts(v diff.Verdict) string {
	var parts []string
	for _, c := range countList(v) {
		parts = append(parts, fmt.Sprintf("%d %s", c.Count, c.Text))
	}
	if len(parts) == 0 {
		return "no differences"
	}
	return strings.Join(parts, ", ")
}

// cellText formats a cell of the matrix: "+1 -2 ~3 (4)".
func cellText(c diff.Cell) string {
	var parts []string
	for _, part := range []struct {
		format string
		count  int
	}{{"+%d", c.Added}, {"-%d", c.Removed}, {"~%d", c.Changed}, {"(%d)", c.Folded}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf(part.format, part.count))
		}
	}
	return term.OrNone(strings.Join(parts, " "))
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

// imageDiffers reports whether a provider comes from another image. A bundle in a directory has no image;
// that is no difference.
func imageDiffers(p diff.ProviderChange) bool {
	either := p.Outcome == diff.Added || p.Outcome == diff.Removed
	return p.Images[0] != p.Images[1] && (either || p.Images[0] != "" && p.Images[1] != "")
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

// headline formats a change in one line, without its values: "v1beta2 spec.region:
// field removed".
func headline(c diff.Change) string {
	where := c.Path
	if inVersion(c) {
		where = strings.TrimSpace(c.Version + " " + c.Path)
	}
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

// inVersion reports whether a change is in the schema of a version, not in the version itself.
func inVersion(c diff.Change) bool { return c.Version != "" && !strings.Contains(c.Message, c.Version) }

// foldCount formats the number of occurrences: "12 objects", or "21 times in 2 objects".
func foldCount(f diff.Fold) string {
	objects := term.Plural(len(f.Objects), "object", "objects")
	if f.Count == len(f.Objects) {
		return objects
	}
	return term.Plural(f.Count, "time", "times") + " in " + objects
}

// hasValues reports whether a change is shown with its values.
func hasValues(c diff.Change) bool {
	return (c.Path != "" || c.Fold == diff.FoldImage) && (c.From != nil || c.To != nil) && !strings.HasPrefix(c.Rule, "rbac/") && c.Rule != "webhook/rules"
}

// shown returns the entries that are not folded, or all if full is set.
func shown(entries []diff.Entry, full bool) []diff.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e diff.Entry) bool { return e.Folded && !full })
}

// unfolded returns the changes that are not folded, or all if full is set, worst
// first.
func unfolded(changes []diff.Change, full bool) []diff.Change {
	left := slices.DeleteFunc(slices.Clone(changes), func(c diff.Change) bool { return c.Fold != "" && !full })
	slices.SortStableFunc(left, func(a, b diff.Change) int {
		return slices.Index(diff.Levels(), a.Level) - slices.Index(diff.Levels(), b.Level)
	})
	return left
}

// quiet reports whether a provider has no changes.
func quiet(p diff.ProviderChange) bool { return p.Outcome == diff.Same }

// viewFuncs are the functions of all templates.
func viewFuncs(full bool) map[string]any {
	return map[string]any{
		"verdict":      func(level diff.Level) string { return verdictWords[level] },
		"word":         func(level diff.Level) string { return levelWords[level] },
		"areas":        diff.Areas,
		"areaName":     func(area diff.Area) string { return areaWords[area] },
		"versions":     func(p diff.ProviderChange) string { return versionsText(p, " → ") },
		"quiet":        quiet,
		"imageDiffers": imageDiffers,
		"entriesOf": func(p diff.ProviderChange, area diff.Area) []diff.Entry {
			return slices.DeleteFunc(shown(p.Entries, full), func(e diff.Entry) bool { return e.Area != area })
		},
		"changesOf":   func(e diff.Entry) []diff.Change { return unfolded(e.Changes, full) },
		"changeCount": func(e diff.Entry) string { return term.Plural(len(unfolded(e.Changes, full)), "change", "changes") },
		"objectName":  func(r diff.Ref) string { return strings.TrimPrefix(r.Namespace+"/"+r.Name, "/") },
		"imageName":   func(c diff.ImageChange) string { return cmp.Or(c.To, c.From) },
		"hasValues":   hasValues,
		"plural":      term.Plural,
		"inVersion":   inVersion,
		"foldCount":   foldCount,
		"foldsOf": func(p diff.ProviderChange, repeated bool) []diff.Fold {
			return slices.DeleteFunc(slices.Clone(p.Folds), func(f diff.Fold) bool { return (f.Reason == diff.FoldRepeated) != repeated })
		},
	}
}
