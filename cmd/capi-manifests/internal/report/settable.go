// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"io"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// SettableIn returns the settings that the providers of sources can have: of releases, where - is stdin, or of bundles. Progress is written to stderr.
func SettableIn(ctx context.Context, stdin io.Reader, stderr io.Writer, sources []string) ([]Settable, error) {
	all := []Settable{}
	var errs []error
	for _, src := range sources {
		bundles, src, err := bundlesOf(ctx, stdin, stderr, src)
		errs = append(errs, err)
		for _, bundle := range bundles {
			set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{release.InImage(bundle, src)}, Variables: release.Placeholders(bundle)})
			errs = append(errs, err)
			for _, component := range set.Operands {
				all = append(all, NewSettable(findings.FileOf(src, bundle, contract.ManifestsFile), bundle, component))
			}
		}
	}
	return all, errors.Join(errs...)
}

// bundlesOf returns the bundles of a release or of another source, and the location of the source.
func bundlesOf(ctx context.Context, stdin io.Reader, stderr io.Writer, src string) ([]extractor.Bundle, string, error) {
	if isRelease, err := source.IsImagesJSON(src); err != nil || !isRelease {
		return source.Bundles(ctx, stderr, src)
	}
	results, err := release.Source{File: src, AllowTags: true}.Read(ctx, stdin, stderr)
	var bundles []extractor.Bundle
	for _, result := range results {
		bundles = append(bundles, result.Bundles...)
	}
	return bundles, src, err
}
