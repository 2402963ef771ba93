// SPDX-License-Identifier: Apache-2.0

// Package page writes reports as HTML pages with the same layout, colors and print style.
package page

import (
	"bytes"
	_ "embed" // the layout
	"fmt"
	"html/template"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Layout is the template of all pages, with their style. A page defines the templates "title", "style" (further CSS) and
// "body". The header has a class that sets --tone and --tone-bg.
//
//go:embed page.html.tmpl
var Layout string

// Write writes data as one self-contained page; definitions are the templates of the page.
func Write(out *bytes.Buffer, definitions string, funcs template.FuncMap, data any) error {
	page, err := template.New("page").Funcs(funcs).Parse(Layout)
	if err == nil {
		_, err = page.New("definitions").Parse(definitions)
	}
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	var written bytes.Buffer
	if err := page.Execute(&written, data); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	out.WriteString(term.PrintableLines(written.String()))
	return nil
}
