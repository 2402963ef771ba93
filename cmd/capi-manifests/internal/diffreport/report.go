// SPDX-License-Identifier: Apache-2.0

// Package diffreport writes a comparison of build/diff as text, JSON, Markdown or
// HTML.
package diffreport

import (
	"bytes"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// Report is the data of diff, as in schema/diff.json.
type Report struct {
	// Schema is schema.Diff.
	Schema string `json:"$schema"`
	// A and B are the compared sources: images by digest, or the given paths.
	A string `json:"a"`
	B string `json:"b"`
	diff.Report
}

// New compares the providers of the sources named a and b.
func New(a, b string, before, after []diff.Provider) Report {
	return Report{schema.Diff, a, b, diff.Compare(before, after)}
}

// Providers converts components for New.
func Providers(components []operand.Operand) (providers []diff.Provider) {
	for _, o := range components {
		providers = append(providers, diff.Provider{Name: o.Name, Type: string(o.Type), Version: o.Version, Image: o.Origin.Image, Objects: o.Objects})
	}
	return providers
}

// providerOf converts a bundle for New, without rendering it.
func providerOf(b extractor.Bundle) (diff.Provider, error) {
	objects, err := bundle.Objects(b)
	return diff.Provider{
		Name: b.Metadata.ProviderName, Type: string(b.Metadata.ProviderType), Version: b.Metadata.ProviderVersion,
		Image: b.Origin.Image, Objects: objects,
	}, err
}

// Format is the format of a report. The zero value is text.
type Format string

// The formats.
const (
	Text     Format = ""
	JSON     Format = "json"
	Markdown Format = "markdown"
	HTML     Format = "html"
)

// Formats are the names of the formats.
var Formats = []string{"text", "json", "markdown", "html"}

// Write writes the report in a format, with folded changes if full. Only text has color.
func (d Report) Write(out *bytes.Buffer, format Format, full, color bool) error {
	switch format {
	case JSON:
		return term.EncodeJSON(out, d)
	case Markdown:
		return d.markdown(out, full)
	case HTML:
		return d.html(out, full)
	default:
		d.text(out, full, color)
		return nil
	}
}

// DifferencesError reports differences that decide the exit code.
type DifferencesError struct{ Verdict diff.Verdict }

func (e *DifferencesError) Error() string {
	return "found differences: " + Counts(e.Verdict)
}
