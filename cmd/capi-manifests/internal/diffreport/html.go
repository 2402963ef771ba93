// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

//go:embed template/diff.html.tmpl
var htmlTemplate string

// html writes the report as one self-contained page.
func (d Report) html(out *bytes.Buffer, full bool) error {
	page, err := template.New("diff").Funcs(htmlFuncs(full)).Parse(htmlTemplate)
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	var written bytes.Buffer
	if err := page.Execute(&written, d); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	out.WriteString(term.PrintableLines(written.String()))
	return nil
}

func htmlFuncs(full bool) template.FuncMap {
	funcs := template.FuncMap{
		"icon":      func(level diff.Level) string { return levelIcons[level] },
		"class":     func(level diff.Level) string { return levelWords[level] },
		"countList": countList,
		"cellEmpty": func(c diff.Cell) bool { return c == diff.Cell{} },
		"cell":      func(c diff.Cell) string { return strings.ReplaceAll(cellText(c), "-", "−") },
		"notNil":    func(value any) bool { return value != nil },
		"value":     prettyValue,
		"open":      func(e diff.Entry) bool { return e.Level == diff.Breaking || e.Level == diff.Widening },
	}
	maps.Copy(funcs, viewFuncs(full))
	return funcs
}

// levelIcons distinguish levels by shape.
var levelIcons = map[diff.Level]string{diff.Breaking: "✖", diff.Widening: "▲", diff.Review: "●", diff.Plain: "■", diff.Noise: "·", diff.None: "✔"}

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
