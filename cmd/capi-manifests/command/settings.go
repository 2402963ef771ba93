// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

const settingsLong = `List what spec.components of the ClusterAPI object can set for the providers in bundles: each variable
with its default and the file and lines that use it, each feature gate in the arguments of the
manager, and the Deployments. The names of components are those in the status of ClusterAPI.

Any field of any object can be changed with spec.components[].patches. "capi-manifests plan --settings FILE"
shows the effect of settings before they are written to the cluster.

A SOURCE is a release (images.json; - is stdin), or a directory, an OCI layout, an archive or an image, as for "validate".`

const settingsExample = `  # List the settings of a provider
  capi-manifests settings capi-manifests

  # List the settings of all providers of a release
  capi-manifests settings images.json

  # The variables without a default
  capi-manifests settings quay.io/me/capa:bundled -o json | jq '.[].variables[] | select(.required)'`

func newSettings() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:               "settings SOURCE...",
		Short:             "List what can be set for the providers of a release",
		Long:              settingsLong,
		Example:           settingsExample,
		Args:              cli.AtLeastOneArg("SOURCE, an images.json, an image, an OCI layout, an archive or a directory"),
		ValidArgsFunction: cli.CompleteSources,
		RunE: func(cmd *cobra.Command, sources []string) error {
			all, err := settable(cmd, sources)
			if err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) { report.SettingsTable(w, all) })
		},
	}
	format.Register(cmd)
	return cmd
}

// settable returns the settings that the providers of sources can have.
func settable(cmd *cobra.Command, sources []string) ([]report.Settable, error) {
	all := []report.Settable{}
	var errs []error
	for _, src := range sources {
		bundles, src, err := bundlesOf(cmd, src)
		errs = append(errs, err)
		for _, bundle := range bundles {
			set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{release.InImage(bundle, src)}, Variables: release.Placeholders(bundle)})
			errs = append(errs, err)
			for _, component := range set.Operands {
				all = append(all, report.NewSettable(findings.FileOf(src, bundle, contract.ManifestsFile), bundle, component))
			}
		}
	}
	return all, errors.Join(errs...)
}

// bundlesOf returns the bundles of a release or of another source, and the location of the source.
func bundlesOf(cmd *cobra.Command, src string) ([]extractor.Bundle, string, error) {
	if isRelease, err := source.IsImagesJSON(src); err != nil || !isRelease {
		return source.Bundles(cmd.Context(), cmd.ErrOrStderr(), src)
	}
	results, err := release.Source{File: src, AllowTags: true}.Read(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
	var bundles []extractor.Bundle
	for _, result := range results {
		bundles = append(bundles, result.Bundles...)
	}
	return bundles, src, err
}
