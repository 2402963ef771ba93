// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/variable"
)

const inspectLong = `Show the bundles of an image: metadata, objects by kind, container images, and variables with
their defaults.

SOURCE is an image, an OCI layout, an archive of "podman save", or a directory: with a
bundle, or with the ConfigMaps of "generate --transport configmap". Every digest is verified,
including the content ID of the manifests, so inspect shows exactly the bundle that a cluster reads.`

const inspectExample = `  # Inspect an image
  capi-manifests inspect quay.io/me/capa@sha256:…

  # Inspect the output of generate or pack
  capi-manifests inspect capi-manifests
  capi-manifests inspect capa.oci

  # Write the manifests
  capi-manifests inspect quay.io/me/capa:v2.10.0 --manifests | kubectl apply --dry-run=server -f -

  # Print the content ID
  capi-manifests inspect capi-manifests -o json | jq -r '.bundles[].metadata.contentID'`

func newInspect() *cobra.Command {
	var format cli.Output
	var manifests bool
	var signatures signatureFlags
	cmd := &cobra.Command{
		Use:     "inspect SOURCE",
		Short:   "Show the contents of a bundle or image",
		Long:    inspectLong,
		Example: inspectExample,
		Args:    cli.OneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if manifests && format != cli.Table {
				return cli.WrongUsage(errors.New("--manifests and -o cannot be used together"))
			}
			bundles, src, err := source.Bundles(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if manifests {
				return writeManifests(cmd.OutOrStdout(), bundles)
			}
			found, err := inspect(src, bundles)
			if err != nil {
				return err
			}
			policy, err := signatures.load(cmd)
			if err != nil {
				return err
			}
			if found.Signature, err = policy.Of(cmd.Context(), src); err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), found, found.table)
		},
	}
	format.Register(cmd)
	signatures.register(cmd, "whose verdict on an image is shown")
	cmd.Flags().BoolVar(&manifests, "manifests", false, "manifests only, unmodified unless stdout is a terminal")
	return cmd
}

// inspection is the output of inspect.
type inspection struct {
	// Source is the image by digest, or the path.
	Source  string            `json:"source"`
	Bundles []inspectedBundle `json:"bundles"`
	// Signature is the verdict of the signature policy; nil without a policy, and
	// for sources that are not in a registry.
	Signature *verdict.Verdict `json:"signature,omitempty"`
}

// inspectedBundle is a bundle of a source.
type inspectedBundle struct {
	Profile  string             `json:"profile,omitempty"`
	Metadata extractor.Metadata `json:"metadata"`
	// Bytes is the size of the manifests.
	Bytes int `json:"bytes"`
	bundle.Contents
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
		if term.IsTerminal(w) {
			text = term.PrintableLines(text)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// inspect returns the report about the bundles of a source.
func inspect(src string, bundles []extractor.Bundle) (inspection, error) {
	found := inspection{Source: src, Bundles: []inspectedBundle{}}
	for _, b := range bundles {
		contents, err := bundle.ContentsOf(b)
		if err != nil {
			return inspection{}, fmt.Errorf("reading %s: %w", src, err)
		}
		found.Bundles = append(found.Bundles, inspectedBundle{b.Profile, b.Metadata, len(b.Manifests), contents})
	}
	return found, nil
}

// table writes the report as tables.
func (r inspection) table(w *bytes.Buffer) {
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

func (b inspectedBundle) rows() [][]string {
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
