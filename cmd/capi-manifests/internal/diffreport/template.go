// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

//go:embed template/diff.html.tmpl
var htmlTemplate string

//go:embed template/diff.md.tmpl
var markdownTemplate string

// html writes the report as one self-contained page.
func (d Report) html(out *bytes.Buffer, full bool) error {
	return page.Write(out, htmlTemplate, templateFuncs(full), d)
}

// maxComment limits a report for a comment on a pull request. GitHub accepts 65,536
// characters; the rest is left for other text.
const maxComment = 60_000

// markdown writes the report for a pull request. Providers that exceed maxComment
// are listed without their changes.
func (d Report) markdown(out *bytes.Buffer, full bool) error {
	page, err := template.New("diff").Funcs(templateFuncs(full)).Parse(markdownTemplate)
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

// templateFuncs are the functions of the templates.
func templateFuncs(full bool) map[string]any {
	return map[string]any{
		"icon":      func(level diff.Level) string { return levels[level].Icon },
		"verdict":   func(level diff.Level) string { return levels[level].Verdict },
		"word":      func(level diff.Level) string { return levels[level].Word },
		"levels":    diff.Levels,
		"counts":    Counts,
		"count":     countText,
		"versions":  func(p diff.ProviderChange) string { return versionsText(p, " → ") },
		"quiet":     quiet,
		"where":     where,
		"places":    func(c diff.Change) []string { return placesOf(c, full) },
		"plural":    term.Plural,
		"open":      func(level diff.Level) bool { return level == diff.Breaking || level == diff.Widening },
		"hasValues": hasValues,
		"notNil":    func(value any) bool { return value != nil },
		"value":     prettyValue,
		"values":    valuesText,
		"code":      markdownCode,
		"text":      markdownText,
		"html":      func(value any) string { return html.EscapeString(term.Printable(fmt.Sprint(value))) },
		"cellCode":  func(text string) string { return strings.ReplaceAll(markdownCode(text), "|", "\\|") },
	}
}

// prettyValue formats a value: a string unchanged, other values as YAML.
func prettyValue(value any) string {
	if text, isText := value.(string); isText {
		if text == "" {
			return `""`
		}
		return text
	}
	encoded, err := yaml.Marshal(value)
	if err != nil {
		return "?" // values of YAML can be encoded
	}
	return strings.TrimSuffix(string(encoded), "\n")
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
