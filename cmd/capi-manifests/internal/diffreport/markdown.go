// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

//go:embed template/diff.md.tmpl
var markdownTemplate string

// maxComment limits a report for a comment on a pull request. GitHub accepts 65,536
// characters; the rest is left for other text.
const maxComment = 60_000

// markdown writes the report for a pull request. Providers that exceed maxComment
// are listed without their changes.
func (d Report) markdown(out *bytes.Buffer, full bool) error {
	page, err := template.New("diff").Funcs(markdownFuncs(full)).Parse(markdownTemplate)
	if err != nil {
		return fmt.Errorf("reading the template of the comment: %w", err)
	}
	var written bytes.Buffer
	if err := page.ExecuteTemplate(&written, "head", d); err != nil {
		return fmt.Errorf("writing the comment: %w", err)
	}
	for _, p := range d.Providers {
		if quiet(p) {
			continue
		}
		var section bytes.Buffer
		if err := page.ExecuteTemplate(&section, "provider", p); err != nil {
			return fmt.Errorf("writing the comment: %w", err)
		}
		if written.Len()+section.Len() > maxComment {
			section.Reset()
			fmt.Fprintf(&section, "\n### %s\n\nToo long for a comment; `-o html` has the full report.\n", markdownText(p.Name))
		}
		written.Write(section.Bytes())
	}
	out.WriteString(term.PrintableLines(written.String()))
	return nil
}

func markdownFuncs(full bool) template.FuncMap {
	funcs := template.FuncMap{
		"icon":     func(level diff.Level) string { return levelIcons[level] },
		"code":     markdownCode,
		"text":     markdownText,
		"cellCode": func(text string) string { return strings.ReplaceAll(markdownCode(text), "|", "\\|") },
		"html":     func(value any) string { return html.EscapeString(term.Printable(fmt.Sprint(value))) },
		"counts":   Counts,
		"notNil":   func(value any) bool { return value != nil },
		"short":    valueText,
		"open":     func(e diff.Entry) bool { return e.Level == diff.Breaking },
		"mdCell": func(c diff.Cell) string {
			text := markdownText(cellText(c))
			if c.Level == diff.Breaking || c.Level == diff.Widening || c.Level == diff.Review {
				text = levelIcons[c.Level] + " " + text
			}
			return text
		},
		"noteworthyImages": func(changes []diff.ImageChange) []diff.ImageChange {
			return slices.DeleteFunc(slices.Clone(changes), func(c diff.ImageChange) bool { return c.Level == diff.Noise })
		},
		"folded": func(folds []diff.Fold) (count int) {
			for _, fold := range folds {
				count += fold.Count
			}
			return count
		},
	}
	maps.Copy(funcs, viewFuncs(full))
	return funcs
}

// markdownText escapes text so that no part of it is Markdown or HTML.
func markdownText(text string) string {
	var out strings.Builder
	for i, r := range term.Printable(text) {
		if strings.ContainsRune("\\`*_{}[]<>#!|~@&:", r) || i == 0 && strings.ContainsRune("+-", r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// markdownCode is text in a code span.
func markdownCode(text string) string {
	text = term.Printable(text)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || text == "" {
		text = " " + text + " "
	}
	return fence + text + fence
}
