// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
)

//go:embed template/diff.html.tmpl
var htmlTemplate string

// html writes the report as one self-contained page.
func (d Report) html(out *bytes.Buffer, full bool) error {
	return page.Write(out, htmlTemplate, htmlFuncs(full), d)
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
