// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// comparand is one of the two sets of providers that are compared.
type comparand struct {
	// source is the image by digest, or the path.
	source    string
	providers []diff.Provider
}

// diffSourceFlags holds the flags for reading A and B.
type diffSourceFlags struct {
	platform  platformsFlag
	cacheDir  string
	allowTags bool
	variables []string
}

func (o *diffSourceFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&o.platform.text, "platform", "", "`platform` whose components of releases are compared, such as AWS, or several, separated by commas (default every provider)")
	set.BoolVar(&o.allowTags, "allow-tags", false, "accept tags in images.json and resolve them; a cluster rejects tags")
	set.StringArrayVar(&o.variables, "var", nil, "`name=value` of a variable in the manifests of releases; may be repeated")
	set.StringVar(&o.cacheDir, "cache-dir", "", "cache `directory` for the bundles of releases")
	completePlatform(cmd)
	_ = cmd.MarkFlagDirname("cache-dir") // the flag exists
}

// open reads both sides. Either both are releases, or neither is.
func (o *diffSourceFlags) open(cmd *cobra.Command, a, b string) (before, after comparand, err error) {
	variables, err := pairs("var", o.variables)
	if err := wrongUsage(o.platform.parse(), err); err != nil {
		return comparand{}, comparand{}, err
	}
	isA, err := source.IsImagesJSON(a)
	isB, errB := source.IsImagesJSON(b)
	if err := errors.Join(err, errB); err != nil {
		return comparand{}, comparand{}, err
	}
	switch {
	case a == "-" && b == "-":
		return comparand{}, comparand{}, &usageError{errors.New("stdin (-) can be used for only one of A and B")}
	case isA != isB:
		return comparand{}, comparand{}, &usageError{fmt.Errorf("cannot compare %s and %s: only one of them is a release (images.json)", a, b)}
	}
	if !isA {
		for _, flag := range []string{"platform", "var", "allow-tags", "cache-dir"} {
			if cmd.Flags().Changed(flag) {
				return comparand{}, comparand{}, &usageError{fmt.Errorf("--%s is only valid for releases; %s and %s are not releases (images.json)", flag, a, b)}
			}
		}
	}
	open := func(src string) (comparand, error) { return o.bundles(cmd, src) }
	if isA {
		open = func(src string) (comparand, error) { return o.release(cmd, src, variables) }
	}
	before, errA := open(a)
	after, errB = open(b)
	return before, after, errors.Join(errA, errB)
}

// bundles reads the providers of an image, an archive or a directory, without
// rendering them.
func (o *diffSourceFlags) bundles(cmd *cobra.Command, src string) (comparand, error) {
	bundles, src, err := source.Bundles(cmd.Context(), cmd.ErrOrStderr(), src)
	if err != nil {
		return comparand{}, err
	}
	opened := comparand{source: src}
	for _, from := range bundles {
		provider, err := diffreport.BundleProvider(from)
		if err != nil {
			return comparand{}, fmt.Errorf("reading %s: %w", src, err)
		}
		opened.providers = append(opened.providers, provider)
	}
	return opened, nil
}

// release reads the providers of a release, rendered as in a cluster.
func (o *diffSourceFlags) release(cmd *cobra.Command, src string, variables map[string]string) (comparand, error) {
	from := release.Source{File: src, AllowTags: o.allowTags, CacheDir: o.cacheDir}
	results, err := from.Read(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return comparand{}, err
	}
	operands, err := o.render(results, variables)
	if err != nil {
		return comparand{}, fmt.Errorf("reading %s: %w", src, err)
	}
	opened := comparand{source: src}
	for _, p := range operands {
		opened.providers = append(opened.providers, diffreport.Provider(p))
	}
	return opened, nil
}

// render renders the components of the platform. Without a platform, it renders
// every provider separately, because providers of different platforms may define
// the same objects.
func (o *diffSourceFlags) render(results []extractor.Result, variables map[string]string) ([]operand.Operand, error) {
	if len(o.platform.platforms) > 0 {
		bundles, err := operand.Select(o.platform.platforms, results)
		if err != nil {
			return nil, err
		}
		set, err := operand.Render(bundles, variables)
		return set.Operands, err
	}
	var operands []operand.Operand
	var errs []error
	for _, result := range results {
		if result.Err != nil {
			errs = append(errs, &operand.ImageError{Name: result.Image.Name, Reference: result.Image.Reference, Err: result.Err})
		}
		for _, bundle := range result.Bundles {
			set, err := operand.Render([]extractor.Bundle{bundle}, variables)
			operands, errs = append(operands, set.Operands...), append(errs, err)
		}
	}
	slices.SortStableFunc(operands, func(a, b operand.Operand) int {
		types := extractor.ProviderTypes()
		return cmp.Or(cmp.Compare(slices.Index(types, a.Type), slices.Index(types, b.Type)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Origin.Name, b.Origin.Name))
	})
	return operands, errors.Join(errs...)
}
