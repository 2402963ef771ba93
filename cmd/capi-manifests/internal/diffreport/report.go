// SPDX-License-Identifier: Apache-2.0

// Package diffreport writes a comparison of build/diff as text, JSON, Markdown or
// HTML.
package diffreport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
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

// Write writes the report in a format, with every place of a change if full. Only text has color.
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
type DifferencesError struct{ Verdict diff.Counts }

func (e *DifferencesError) Error() string {
	return "found differences: " + Counts(e.Verdict)
}

// Side is one of the two sets of providers that are compared.
type Side struct {
	// Source is the image by digest, or the path.
	Source    string
	Providers []diff.Provider
}

// Read reads the providers of an image, an archive or a directory, without
// rendering them.
func Read(ctx context.Context, stderr io.Writer, src string) (Side, error) {
	bundles, src, err := source.Bundles(ctx, stderr, src)
	if err != nil {
		return Side{}, err
	}
	return Bundles(src, bundles...)
}

// Bundles returns the providers of bundles.
func Bundles(src string, bundles ...extractor.Bundle) (Side, error) {
	opened := Side{Source: src}
	for _, from := range bundles {
		provider, err := providerOf(from)
		if err != nil {
			return Side{}, fmt.Errorf("reading %s: %w", src, err)
		}
		opened.Providers = append(opened.Providers, provider)
	}
	return opened, nil
}

// Release reads the providers of a release, rendered as in a cluster of the platforms.
func Release(ctx context.Context, stdin io.Reader, stderr io.Writer, from release.Source, platforms operand.Platforms, variables map[string]string) (Side, error) {
	results, err := from.Read(ctx, stdin, stderr)
	if err != nil {
		return Side{}, err
	}
	operands, err := render(platforms, results, variables, from.Settings)
	if err != nil {
		return Side{}, fmt.Errorf("reading %s: %w", from.File, err)
	}
	return Side{Source: from.File, Providers: Providers(operands)}, nil
}

// render renders the components of the platform, with the settings. Without a platform, it renders
// every provider separately, because providers of different platforms may define
// the same objects.
func render(platforms operand.Platforms, results []extractor.Result, variables map[string]string, settings setting.Settings) ([]operand.Operand, error) {
	if len(platforms) > 0 {
		bundles, err := operand.Select(platforms, results)
		if err != nil {
			return nil, err
		}
		set, err := release.Render(operand.Inputs{Bundles: bundles, Variables: variables, Settings: settings})
		return set.Operands, err
	}
	var operands []operand.Operand
	var errs []error
	for _, result := range results {
		if result.Err != nil {
			errs = append(errs, &operand.ImageError{Name: result.Image.Name, Reference: result.Image.Reference, Err: result.Err})
		}
		for _, bundle := range result.Bundles {
			set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{bundle}, Variables: variables})
			operands, errs = append(operands, set.Operands...), append(errs, err)
		}
	}
	slices.SortStableFunc(operands, func(a, b operand.Operand) int {
		types := extractor.ProviderTypes()
		return cmp.Or(cmp.Compare(slices.Index(types, a.Type), slices.Index(types, b.Type)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Origin.Name, b.Origin.Name))
	})
	return operands, errors.Join(errs...)
}
