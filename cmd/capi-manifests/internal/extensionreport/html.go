// SPDX-License-Identifier: Apache-2.0

package extensionreport

import (
	"bytes"
	_ "embed" // the page
	"html/template"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
)

//go:embed template/extension.html.tmpl
var htmlTemplate string

// html writes the report as one self-contained page.
func (r Report) html(out *bytes.Buffer) error {
	return page.Write(out, htmlTemplate, r.htmlFuncs(), r)
}

func (r Report) htmlFuncs() template.FuncMap {
	good := r.Counts[contract.Error] == 0
	choose := func(a, b string) func() string {
		return func() string {
			if good {
				return a
			}
			return b
		}
	}
	return template.FuncMap{
		"verdict":     choose("Conformant", "Not conformant"),
		"headerIcon":  choose("✔", "✖"),
		"headerClass": choose("passed", "failed-error"),
		"summary":     func() string { return findings.Summary(r.Counts, r.Checked()) },
		"columns":     func() int { return len(r.Handlers) + 2 },
		"themes":      r.themes,
		"violated":    r.violated,
	}
}

// theme is a group of rows of the matrix.
type theme struct {
	Name  string
	Rules []row
}

// row is a rule, with a cell for the server and for each handler.
type row struct {
	ID, Anchor string
	Failed     bool
	Cells      []cell
}

type cell struct{ Class, Label, Icon string }

// themes returns the rows of the matrix, grouped by the first part of the rule
// names.
func (r Report) themes() (themes []theme) {
	for _, rule := range extension.ContractRules() {
		name, _, _ := strings.Cut(rule.ID, "/")
		if len(themes) == 0 || themes[len(themes)-1].Name != name {
			themes = append(themes, theme{Name: name})
		}
		last := &themes[len(themes)-1]
		last.Rules = append(last.Rules, r.row(rule))
	}
	return themes
}

func (r Report) row(rule contract.Rule) row {
	result := row{ID: rule.ID, Anchor: anchor(rule.ID), Cells: []cell{r.cell(rule, "")}}
	for _, h := range r.Handlers {
		result.Cells = append(result.Cells, r.cell(rule, h.Name))
	}
	for _, one := range r.Results {
		result.Failed = result.Failed || one.Rule == rule.ID && len(one.Findings) > 0
	}
	return result
}

// severityIcons distinguish severities by shape.
var severityIcons = map[contract.Severity]string{contract.Error: "✖", contract.Warning: "▲", contract.Info: "●"}

// cell returns the result of a rule for a handler; an empty name means the server.
func (r Report) cell(rule contract.Rule, handler string) cell {
	for _, result := range r.Results {
		if result.Rule != rule.ID || result.Handler != handler {
			continue
		}
		switch result.Outcome {
		case extension.Passed:
			return cell{"passed", "passed", "✔"}
		case extension.Skipped:
			return cell{"skipped", "not checked", "?"}
		case extension.Failed:
			return cell{"failed-" + string(rule.Severity), string(rule.Severity), severityIcons[rule.Severity]}
		}
	}
	return cell{"none", "not about the hook", ""}
}

// violation is a rule with its findings.
type violation struct {
	Rule     contract.Rule
	Anchor   string
	Findings []contract.Finding
}

func (r Report) violated() (violations []violation) {
	for _, rule := range extension.ContractRules() {
		v := violation{Rule: rule, Anchor: anchor(rule.ID)}
		for _, result := range r.Results {
			if result.Rule == rule.ID {
				v.Findings = append(v.Findings, result.Findings...)
			}
		}
		if len(v.Findings) > 0 {
			violations = append(violations, v)
		}
	}
	return violations
}

func anchor(rule string) string { return strings.ReplaceAll(rule, "/", "-") }
