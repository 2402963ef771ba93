// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

// kustomizeFlags holds the flags of generate, for a kustomize directory that is
// validated as if it were generated.
type kustomizeFlags struct{ provider providerFlags }

// The forms of a directory.
const (
	formBundle    = "bundle"
	formKustomize = "kustomize"
)

// kustomization returns the kustomization.yaml of src if src is checked as a
// kustomize directory, or src itself if it is a file with manifests. It is empty
// for a bundle.
func (o *validateOptions) kustomization(cmd *cobra.Command, src string) (string, error) {
	if kustomize.IsManifests(src) {
		return src, nil
	}
	file := source.KustomizationIn(src)
	bundle := source.BundleIn(src)
	switch {
	case o.as == formKustomize && file == "":
		return "", cli.WrongUsage(fmt.Errorf("--as kustomize: %s has no kustomization.yaml", src))
	case o.as == formBundle && file != "" && bundle == "":
		return "", cli.WrongUsage(fmt.Errorf("--as bundle: %s has a %s and no bundle", src, filepath.Base(file)))
	case o.as == formKustomize, bundle == "":
		return file, nil
	case file != "" && o.as == "":
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s has both a bundle (%s) and a %s; validating the bundle, use --as kustomize for the other\n",
			term.Printable(src), bundle, filepath.Base(file))
	}
	return "", nil
}

// render renders the directory as generate does.
func (f *kustomizeFlags) render(cmd *cobra.Command, src string) (extractor.Bundle, error) {
	options, err := f.provider.options(src)
	if err != nil {
		return extractor.Bundle{}, err
	}
	var notes []error
	bundle, err := term.Interruptible(cmd.Context(), func() (bundle extractor.Bundle, err error) {
		bundle, notes, err = generate.Preview(options)
		return bundle, report.InputError(err)
	})
	if err != nil {
		return extractor.Bundle{}, err
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: skipped, because generate would fail: %s\n", term.Printable(src), term.Printable(note.Error()))
	}
	m := bundle.Metadata
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: rendered as by \"capi-manifests generate %[1]s --provider-name %s --provider-type %s --provider-version %s%s\"\n",
		term.Printable(src), m.ProviderName, m.ProviderType, m.ProviderVersion, term.Optional(" --platform ", m.OCPPlatform)+term.Optional(" --image-name ", m.ImageName))
	return bundle, nil
}
