// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

// kustomizeFlags are those of generate, for a kustomize directory that is validated as if it was generated.
type kustomizeFlags struct{ provider providerFlags }

// kustomization is the file that makes source a kustomize directory; empty if it is another source.
func kustomization(source string) string {
	if kind, err := kindOf(source); err != nil || kind != isDirectory {
		return ""
	}
	for _, root := range append(extractor.Roots(), "metadata.json", "metadata.yaml") {
		if _, err := os.Stat(source + string(os.PathSeparator) + root); err == nil {
			return "" // a bundle, or an image's root; its own files decide
		}
	}
	return build.KustomizationIn(source)
}

// render makes of the directory what generate would make of it.
func (f *kustomizeFlags) render(cmd *cobra.Command, source string) (extractor.Bundle, error) {
	options, err := f.provider.options(cmd, source)
	if err != nil {
		return extractor.Bundle{}, err
	}
	bundle, err := interruptible(cmd.Context(), func() (extractor.Bundle, error) {
		bundle, err := build.Preview(options)
		return bundle, generateError(err)
	})
	if err != nil {
		return extractor.Bundle{}, err
	}
	m := bundle.Metadata
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: rendered and edited as by \"capi-manifests generate %[1]s --provider-name %s --provider-type %s --provider-version %s%s\"\n",
		printable(source), m.ProviderName, m.ProviderType, m.ProviderVersion, optional(" --platform ", m.OCPPlatform)+optional(" --image-name ", m.ImageName))
	return bundle, nil
}

// place has all findings be in a file, at no line.
func (v *validation) place(file string) {
	for i := range v.Bundles {
		for j := range v.Bundles[i].Findings {
			v.Bundles[i].Findings[j].File, v.Bundles[i].Findings[j].Line = file, 0
		}
	}
}

func optional(flag, value string) string {
	return strings.TrimSuffix(flag+value, flag)
}
