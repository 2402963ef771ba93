// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

const extractLong = `Write the bundle of an image to a directory: metadata.json and manifests.yaml, as
generate does. For an image with several bundles each has a directory, named after its
profile.

SOURCE is an image, an OCI layout, an archive of "podman save" or "docker save", or a
directory. Images are pulled as podman, skopeo and oc pull them, with the mirrors, credentials,
certificates and proxies of registries.conf, auth.json, certs.d and the environment. Only the
necessary layers are read, and every byte is verified before its use.`

const extractExample = `  # Extract the bundle that a cluster would read
  capi-manifests extract quay.io/me/capa@sha256:… --output-dir capa

  # From an archive
  podman save quay.io/me/capa:v2.10.0 -o capa.tar && capi-manifests extract capa.tar`

func newExtract() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "extract SOURCE",
		Short:   "Write the bundle of an image to a directory",
		Long:    extractLong,
		Example: extractExample,
		Args:    cli.OneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Required(cmd, "output-dir"); err != nil {
				return err
			}
			bundles, _, err := source.Bundles(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			return extract(cmd, dir, bundles)
		},
	}
	cmd.Flags().StringVar(&dir, "output-dir", "capi-manifests", "output `directory`; created if missing")
	_ = cmd.MarkFlagDirname("output-dir") // the flag exists
	return cmd
}

// byName returns files by their names without the directories.
func byName(files extractor.Files) map[string][]byte {
	named := map[string][]byte{}
	for file, content := range files {
		named[path.Base(file)] = content
	}
	return named
}

// extract writes bundles to a directory, and the names of the files to stdout.
func extract(cmd *cobra.Command, dir string, bundles []extractor.Bundle) error {
	dirs := map[string]map[string][]byte{}
	var written strings.Builder
	for _, bundle := range bundles {
		if bundle.Metadata.InstallOrder != 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: metadata.json has no field for the install order %d of %s; it is dropped\n", bundle.Metadata.InstallOrder, term.Printable(bundle.Metadata.ProviderName))
			bundle.Metadata.InstallOrder = 0
		}
		files, err := bundle.Files()
		if err != nil {
			return &source.InvalidError{Err: err}
		}
		own := dir
		if len(bundles) > 1 {
			own = filepath.Join(dir, filepath.Base(bundle.Profile))
		}
		dirs[own] = byName(files)
		for _, name := range []string{"metadata.json", "manifests.yaml"} {
			fmt.Fprintln(&written, filepath.Join(own, name))
		}
	}
	if err := bundle.WriteDirs(cmd.Context(), dirs); err != nil {
		return err
	}
	_, err := io.WriteString(cmd.OutOrStdout(), written.String())
	return err
}
