// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"

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
	bundle, err := source.OnlyBundle(cmd.Context(), cmd.ErrOrStderr(), src, "--compare")
	if err != nil {
		return err
	}
	before, errBefore := diffreport.Bundles(src, bundle)
	after, errAfter := diffreport.Bundles(dir, generated)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return err
	}
	var out bytes.Buffer
	report := diffreport.New(src, dir, before.Providers, after.Providers)
	if err := report.Write(&out, diffreport.Text, true, term.ColorMode("").Enabled(cmd.OutOrStdout())); err != nil {
		return err
	}
	_, err = out.WriteTo(cmd.OutOrStdout())
	if err == nil && report.Verdict.Level != diff.None {
		err = &diffreport.DifferencesError{Verdict: report.Verdict}
	}
	return err
}
