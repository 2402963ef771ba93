// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/diff"
)

// verdictWords are the verdict in few words.
var verdictWords = map[diff.Level]string{
	diff.Breaking: "Breaking", diff.Widening: "Wider permissions", diff.Review: "To be reviewed",
	diff.Plain: "Changed", diff.Noise: "Only noise", diff.None: "Same",
}

// levelWords name the level of a change.
var levelWords = map[diff.Level]string{
	diff.Breaking: "breaking", diff.Widening: "widening", diff.Review: "review", diff.Plain: "change", diff.Noise: "noise", diff.None: "same",
}

// areaWords are the headings of the matrix.
var areaWords = map[diff.Area]string{diff.CRDs: "CRDs", diff.RBAC: "RBAC", diff.Webhooks: "Webhooks", diff.Images: "Images", diff.Objects: "Objects"}

// countsOf is a verdict in numbers: "2 breaking changes, 1 permission gained".
func countsOf(v diff.Verdict) string {
	var parts []string
	for _, part := range []struct {
		count     int
		one, more string
	}{
		{v.Breaking, "breaking change", "breaking changes"}, {v.Widening, "permission gained", "permissions gained"},
		{v.Review, "change to review", "changes to review"}, {v.Plain, "other change", "other changes"}, {v.Folded, "folded", "folded"},
	} {
		switch {
		case part.count == 1:
			parts = append(parts, "1 "+part.one)
		case part.count > 1:
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.more))
		}
	}
	if len(parts) == 0 {
		return "no change of an object"
	}
	return strings.Join(parts, ", ")
}

// cellText is a cell of the matrix: "+1 -2 ~3 (4)".
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
	return orNone(strings.Join(parts, " "))
}

// versionsText is a provider's version, or both with an arrow.
func versionsText(p diff.ProviderChange, arrow string) string {
	switch before, after := p.Versions[0], p.Versions[1]; {
	case p.Is == diff.Added:
		return "new: " + orNone(after)
	case p.Is == diff.Removed:
		return "gone: " + orNone(before)
	case before == after:
		return orNone(after)
	default:
		return orNone(before) + arrow + orNone(after)
	}
}

// valueText is a value in one line, shortened to a number of characters.
func valueText(value any, limit int) string {
	if value == nil {
		return "none"
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "?" // values of YAML can be encoded
	}
	return shortened(strings.TrimSpace(out.String()), limit)
}

func shortened(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}

// headline is a change in one line, without its values: "v1beta2 spec.region: field is gone".
func headline(c diff.Change) string {
	where := strings.TrimSpace(c.Version + " " + c.Path)
	switch {
	case where == "" || c.Path == "" && strings.Contains(c.Says, c.Version):
		return c.Says
	case c.Rule == "field" && c.Says == "changed":
		return where
	case c.Rule == "field":
		return where + " " + c.Says
	}
	return where + ": " + c.Says
}

// hasValues says whether a change is told better with its values.
func hasValues(c diff.Change) bool {
	return c.Path != "" && (c.From != nil || c.To != nil) && !strings.HasPrefix(c.Rule, "rbac/") && c.Rule != "webhook/rules"
}

// shown are the entries that are not folded, or all with full.
func shown(entries []diff.Entry, full bool) []diff.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e diff.Entry) bool { return e.Folded && !full })
}

// unfolded are the changes that are not folded, or all with full; the worst first.
func unfolded(changes []diff.Change, full bool) []diff.Change {
	left := slices.DeleteFunc(slices.Clone(changes), func(c diff.Change) bool { return c.Fold != "" && !full })
	slices.SortStableFunc(left, func(a, b diff.Change) int {
		return slices.Index(diff.Levels(), a.Level) - slices.Index(diff.Levels(), b.Level)
	})
	return left
}

// quiet says whether there is nothing to tell of a provider.
func quiet(p diff.ProviderChange) bool { return p.Is == diff.Same }

// accessWhere is where a subject may do something.
func accessWhere(a diff.Access) string {
	if a.Namespace == "" {
		return "in all namespaces"
	}
	return "in namespace " + a.Namespace
}
