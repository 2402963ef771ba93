// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

// compareWith writes the differences between the bundle in src and a generated one.
// Differences are an error.
func compareWith(cmd *cobra.Command, src, dir string, generated extractor.Bundle) error {
	bundles, _, err := source.Bundles(cmd.Context(), cmd.ErrOrStderr(), src)
	if err != nil {
		return err
	}
	if len(bundles) != 1 {
		return &source.InvalidError{Err: fmt.Errorf("%s has %d bundles (%s); --compare accepts one", src, len(bundles), providers(bundles))}
	}
	before, err := diffreport.BundleProvider(bundles[0])
	if err != nil {
		return fmt.Errorf("reading %s: %w", src, err)
	}
	after, err := diffreport.BundleProvider(generated)
	if err != nil {
		return err
	}
	report := diffreport.New(src, dir, []diff.Provider{before}, []diff.Provider{after})
	var out bytes.Buffer
	color := term.ColorMode("")
	if err := report.Write(&out, diffreport.Text, true, color.Enabled(cmd.OutOrStdout())); err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(out.Bytes()); err != nil {
		return err
	}
	if report.Verdict.Level != diff.None {
		return &diffreport.DifferencesError{Verdict: report.Verdict}
	}
	return nil
}
