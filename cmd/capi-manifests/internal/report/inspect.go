// SPDX-License-Identifier: Apache-2.0

// Package report holds the outputs of commands that need no package of their own: the contents of bundles (inspect), trees
// of objects (tree), minimal roles (rbac) and the results of generate. Each command has one file.
package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Inspection is the output of inspect.
type Inspection struct {
	// Source is the image by digest, or the path.
	Source  string            `json:"source"`
	Bundles []InspectedBundle `json:"bundles"`
	// Signature is the verdict of the signature policy; nil without a policy, and
	// for sources that are not in a registry.
	Signature *verdict.Verdict `json:"signature,omitempty"`
}

// InspectedBundle is a bundle of a source.
type InspectedBundle struct {
	Profile  string             `json:"profile,omitempty"`
	Metadata extractor.Metadata `json:"metadata"`
	// Bytes is the size of the manifests.
	Bytes int `json:"bytes"`
	bundle.Contents
}

// WriteManifests writes the manifests of all bundles as one stream of YAML documents.
func WriteManifests(w io.Writer, bundles []extractor.Bundle) error {
	for i, bundle := range bundles {
		if i > 0 {
			if _, err := io.WriteString(w, "\n---\n"); err != nil {
				return err
			}
		}
		text := string(bundle.Manifests)
		if term.IsTerminal(w) {
			text = term.PrintableLines(text)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// Inspect returns the report about the bundles of a source.
func Inspect(src string, bundles []extractor.Bundle) (Inspection, error) {
	found := Inspection{Source: src, Bundles: []InspectedBundle{}}
	for _, b := range bundles {
		contents, err := bundle.ContentsOf(b)
		if err != nil {
			return Inspection{}, fmt.Errorf("reading %s: %w", src, err)
		}
		found.Bundles = append(found.Bundles, InspectedBundle{b.Profile, b.Metadata, len(b.Manifests), contents})
	}
	return found, nil
}

// Table writes the report as tables.
func (r Inspection) Table(w *bytes.Buffer) {
	for n, b := range r.Bundles {
		if n > 0 {
			w.WriteString("\n")
		}
		head := [][]string{{"Source", r.Source}}
		if r.Signature != nil {
			head = append(head, []string{"Signature", r.Signature.String()})
		}
		term.Aligned(w, append(head, b.rows()...))
		term.Columns(w, []string{"KIND", "GROUP", "COUNT"}, term.Rows(b.Kinds, func(k bundle.KindCount) []string {
			return []string{k.Kind, term.OrNone(k.Group), strconv.Itoa(k.Count)}
		}))
		term.Columns(w, []string{"IMAGE"}, term.Rows(b.Images, func(image string) []string { return []string{image} }))
		term.Columns(w, []string{"VARIABLE", "DEFAULT"}, term.Rows(b.Variables, func(v bundle.Variable) []string {
			return []string{v.Name, defaultOf(v)}
		}))
	}
}

func (b InspectedBundle) rows() [][]string {
	platform := b.Metadata.OCPPlatform
	if platform == "" {
		platform = "every"
	}
	rows := [][]string{
		{"Provider", b.Metadata.ProviderName},
		{"Type", string(b.Metadata.ProviderType)},
		{"Version", b.Metadata.ProviderVersion},
		{"Platform", platform},
		{"Content ID", string(b.Metadata.ContentID)},
		{"Placeholder", term.OrNone(b.Metadata.ImageName)},
		{"Manifests", term.Plural(b.Objects, "object", "objects") + ", " + term.Plural(b.Bytes, "byte", "bytes")},
	}
	if b.Profile != "" {
		rows = append(rows, []string{"Profile", b.Profile})
	}
	return rows
}

func defaultOf(required bundle.Variable) string {
	if variable.IsProvided(required.Name) {
		return "(set by the installer)"
	}
	if required.Required {
		return "(required)"
	}
	return term.OrNone(*required.Default)
}
