// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

const inspectLong = `Inspect shows the bundles of an image: their metadata, their objects by kind, the
images that they run, and the variables that a cluster can give values for.

SOURCE is an image, an OCI layout, an archive as of "podman save", or a directory: of a
bundle, or of what "generate --transport configmap" wrote. Every digest is checked, that of
the manifests too: what inspect shows is what a cluster would read.`

const inspectExample = `  # An image
  capi-manifests inspect quay.io/me/capa@sha256:…

  # What generate or pack wrote
  capi-manifests inspect capi-manifests
  capi-manifests inspect capa.oci

  # The manifests themselves
  capi-manifests inspect quay.io/me/capa:v2.10.0 --manifests | kubectl apply --dry-run=server -f -

  # The content ID
  capi-manifests inspect capi-manifests -o json | jq -r '.bundles[].metadata.contentID'`

// metadata is extractor.Metadata as data.
type metadata struct {
	ProviderName    string `json:"providerName"`
	ProviderType    string `json:"providerType"`
	ProviderVersion string `json:"providerVersion"`
	OCPPlatform     string `json:"ocpPlatform"`
	ContentID       string `json:"contentID"`
	ImageName       string `json:"imageName"`
	InstallOrder    int    `json:"installOrder,omitempty"`
}

func metadataOf(m extractor.Metadata) metadata {
	return metadata{m.ProviderName, string(m.ProviderType), m.ProviderVersion, m.OCPPlatform, string(m.ContentID), m.ImageName, m.InstallOrder}
}

// inspection is the data of inspect.
type inspection struct {
	// Source is the image by digest, or the path.
	Source  string            `json:"source"`
	Bundles []inspectedBundle `json:"bundles"`
}

type inspectedBundle struct {
	Profile  string   `json:"profile,omitempty"`
	Metadata metadata `json:"metadata"`
	// Bytes is the size of the manifests.
	Bytes int `json:"bytes"`
	build.Contents
}

func newInspect() *cobra.Command {
	var format output
	var manifests bool
	cmd := &cobra.Command{
		Use:               "inspect SOURCE",
		Short:             "Show what is in an image, an OCI layout, an archive or a directory",
		Long:              inspectLong,
		Example:           inspectExample,
		Args:              oneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		ValidArgsFunction: completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			if manifests && format != asTable {
				return &usageError{cmd.CommandPath(), errors.New("--manifests writes the manifests as they are; leave -o out")}
			}
			bundles, source, err := bundlesAt(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if manifests {
				return writeManifests(cmd.OutOrStdout(), bundles)
			}
			found, err := inspect(source, bundles)
			if err != nil {
				return err
			}
			return format.write(cmd.OutOrStdout(), found, found.table)
		},
	}
	format.register(cmd)
	cmd.Flags().BoolVar(&manifests, "manifests", false, "write the manifests, byte for byte unless to a terminal, and nothing else")
	return cmd
}

// writeManifests writes the manifests of all bundles as one stream of YAML documents.
func writeManifests(w io.Writer, bundles []extractor.Bundle) error {
	for i, bundle := range bundles {
		if i > 0 {
			if _, err := io.WriteString(w, "\n---\n"); err != nil {
				return err
			}
		}
		text := string(bundle.Manifests)
		if isTerminal(w) {
			text = printableLines(text)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

func inspect(source string, bundles []extractor.Bundle) (inspection, error) {
	found := inspection{Source: source, Bundles: []inspectedBundle{}}
	for _, bundle := range bundles {
		contents, err := build.ContentsOf(bundle)
		if err != nil {
			return inspection{}, fmt.Errorf("reading %s: %w", source, err)
		}
		found.Bundles = append(found.Bundles, inspectedBundle{bundle.Profile, metadataOf(bundle.Metadata), len(bundle.Manifests), contents})
	}
	return found, nil
}

func (i inspection) table(w *bytes.Buffer) {
	for n, bundle := range i.Bundles {
		if n > 0 {
			w.WriteString("\n")
		}
		aligned(w, append([][]string{{"Source", i.Source}}, bundle.rows()...))
		columns(w, []string{"KIND", "GROUP", "COUNT"}, rowsOf(bundle.Kinds, func(k build.KindCount) []string {
			return []string{k.Kind, orNone(k.Group), strconv.Itoa(k.Count)}
		}))
		columns(w, []string{"IMAGE"}, rowsOf(bundle.Images, func(image string) []string { return []string{image} }))
		columns(w, []string{"VARIABLE", "DEFAULT"}, rowsOf(bundle.Variables, func(v build.Variable) []string {
			return []string{v.Name, defaultOf(v)}
		}))
	}
}

func (b inspectedBundle) rows() [][]string {
	platform := b.Metadata.OCPPlatform
	if platform == "" {
		platform = "every"
	}
	rows := [][]string{
		{"Provider", b.Metadata.ProviderName},
		{"Type", b.Metadata.ProviderType},
		{"Version", b.Metadata.ProviderVersion},
		{"Platform", platform},
		{"Content ID", b.Metadata.ContentID},
		{"Placeholder", orNone(b.Metadata.ImageName)},
		{"Manifests", plural(b.Objects, "object", "objects") + ", " + plural(b.Bytes, "byte", "bytes")},
	}
	if b.Profile != "" {
		rows = append(rows, []string{"Profile", b.Profile})
	}
	return rows
}

func defaultOf(variable build.Variable) string {
	if variable.Required {
		return "(a value is needed)"
	}
	return orNone(*variable.Default)
}
