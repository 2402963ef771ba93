// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
)

// Side is one of the two sets of providers that are compared.
type Side struct {
	// Source is the image by digest, or the path.
	Source    string
	Providers []diff.Provider
}

// Read reads the providers of an image, an archive or a directory, without
// rendering them.
func Read(ctx context.Context, stderr io.Writer, src string) (Side, error) {
	bundles, src, err := source.Bundles(ctx, stderr, src)
	if err != nil {
		return Side{}, err
	}
	return Bundles(src, bundles...)
}

// Bundles returns the providers of bundles.
func Bundles(src string, bundles ...extractor.Bundle) (Side, error) {
	opened := Side{Source: src}
	for _, from := range bundles {
		provider, err := providerOf(from)
		if err != nil {
			return Side{}, fmt.Errorf("reading %s: %w", src, err)
		}
		opened.Providers = append(opened.Providers, provider)
	}
	return opened, nil
}

// Release reads the providers of a release, rendered as in a cluster of the platforms.
func Release(ctx context.Context, stdin io.Reader, stderr io.Writer, from release.Source, platforms operand.Platforms, variables map[string]string) (Side, error) {
	results, err := from.Read(ctx, stdin, stderr)
	if err != nil {
		return Side{}, err
	}
	operands, err := render(platforms, results, variables, from.Settings)
	if err != nil {
		return Side{}, fmt.Errorf("reading %s: %w", from.File, err)
	}
	return Side{Source: from.File, Providers: Providers(operands)}, nil
}

// render renders the components of the platform, with the settings. Without a platform, it renders
// every provider separately, because providers of different platforms may define
// the same objects.
func render(platforms operand.Platforms, results []extractor.Result, variables map[string]string, settings setting.Settings) ([]operand.Operand, error) {
	if len(platforms) > 0 {
		bundles, err := operand.Select(platforms, results)
		if err != nil {
			return nil, err
		}
		set, err := release.Render(operand.Inputs{Bundles: bundles, Variables: variables, Settings: settings})
		return set.Operands, err
	}
	var operands []operand.Operand
	var errs []error
	for _, result := range results {
		if result.Err != nil {
			errs = append(errs, &operand.ImageError{Name: result.Image.Name, Reference: result.Image.Reference, Err: result.Err})
		}
		for _, bundle := range result.Bundles {
			set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{bundle}, Variables: variables})
			operands, errs = append(operands, set.Operands...), append(errs, err)
		}
	}
	slices.SortStableFunc(operands, func(a, b operand.Operand) int {
		types := extractor.ProviderTypes()
		return cmp.Or(cmp.Compare(slices.Index(types, a.Type), slices.Index(types, b.Type)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Origin.Name, b.Origin.Name))
	})
	return operands, errors.Join(errs...)
}
