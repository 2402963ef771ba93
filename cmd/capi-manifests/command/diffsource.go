// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// side is what is compared with another side.
type side struct {
	// source is the image by digest, or the path.
	source    string
	providers []diff.Provider
}

// sideOptions say how to read both sides.
type sideOptions struct {
	platform, cacheDir string
	allowTags          bool
	variables          []string
}

func (o *sideOptions) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&o.platform, "platform", "", "of releases, compare what a cluster of this OpenShift platform gets, such as AWS (default every provider)")
	set.BoolVar(&o.allowTags, "allow-tags", false, "accept images by tag in images.json, and look up their digests; a cluster accepts none")
	set.StringArrayVar(&o.variables, "var", nil, "`name=value` of a variable in the manifests of releases; can be repeated")
	set.StringVar(&o.cacheDir, "cache-dir", "", "`directory` that keeps what was read from the images of releases for the next time")
	completePlatform(cmd)
	_ = cmd.MarkFlagDirname("cache-dir") // the flag exists
}

// open reads both sides, which are both releases or both something else.
func (o *sideOptions) open(cmd *cobra.Command, a, b string) (before, after side, err error) {
	variables, err := pairs(cmd, "var", o.variables)
	if err := wrongUsage(cmd, knownPlatform(o.platform), err); err != nil {
		return side{}, side{}, err
	}
	isA, err := isRelease(a)
	isB, errB := isRelease(b)
	if err := errors.Join(err, errB); err != nil {
		return side{}, side{}, err
	}
	switch {
	case a == "-" && b == "-":
		return side{}, side{}, &usageError{cmd.CommandPath(), errors.New("standard input can be one side only")}
	case isA != isB:
		return side{}, side{}, &usageError{cmd.CommandPath(), fmt.Errorf("%s and %s cannot be compared: one is a release (images.json), the other is not", a, b)}
	}
	if !isA {
		for _, flag := range []string{"platform", "var", "allow-tags", "cache-dir"} {
			if cmd.Flags().Changed(flag) {
				return side{}, side{}, &usageError{cmd.CommandPath(), fmt.Errorf("--%s is for releases; %s and %s are none", flag, a, b)}
			}
		}
	}
	open := func(source string) (side, error) { return o.bundles(cmd, source) }
	if isA {
		open = func(source string) (side, error) { return o.release(cmd, source, variables) }
	}
	before, errA := open(a)
	after, errB = open(b)
	return before, after, errors.Join(errA, errB)
}

// isRelease says whether a source is images.json: a file that begins as an object of
// JSON, standard input or a pipe.
func isRelease(source string) (bool, error) {
	if source == "-" {
		return true, nil
	}
	info, err := os.Stat(source)
	if err != nil || info.IsDir() {
		return false, nil // whoever opens it tells what is wrong
	}
	if !info.Mode().IsRegular() {
		return true, nil // read once only
	}
	file, err := os.Open(source)
	if err != nil {
		return false, err
	}
	defer file.Close()
	for reader := bufio.NewReader(file); ; {
		char, _, err := reader.ReadRune()
		if err != nil || !strings.ContainsRune(" \t\r\n\ufeff", char) {
			return char == '{', nil
		}
	}
}

// bundles reads the providers of an image, an archive or a directory, as they are.
func (o *sideOptions) bundles(cmd *cobra.Command, source string) (side, error) {
	bundles, source, err := bundlesAt(cmd.Context(), cmd.ErrOrStderr(), source)
	if err != nil {
		return side{}, err
	}
	opened := side{source: source}
	for _, bundle := range bundles {
		objects, err := build.Objects(bundle)
		if err != nil {
			return side{}, fmt.Errorf("reading %s: %w", source, err)
		}
		opened.providers = append(opened.providers, diff.Provider{
			Name: bundle.Metadata.ProviderName, Type: string(bundle.Metadata.ProviderType), Version: bundle.Metadata.ProviderVersion,
			Image: bundle.Origin.Image, Objects: objects,
		})
	}
	return opened, nil
}

// release reads the providers of a release, as a cluster would get them.
func (o *sideOptions) release(cmd *cobra.Command, source string, variables map[string]string) (side, error) {
	plan := &planFlags{imagesJSON: source, cacheDir: o.cacheDir, allowTags: o.allowTags}
	ctx := notesTo(cmd.Context(), cmd.ErrOrStderr())
	images, err := plan.images(ctx, cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return side{}, err
	}
	results, err := plan.pull(ctx, images, cmd.ErrOrStderr())
	if err != nil {
		return side{}, err
	}
	operands, err := o.render(results, variables)
	if err != nil {
		return side{}, fmt.Errorf("reading %s: %w", source, err)
	}
	opened := side{source: source}
	for _, p := range operands {
		opened.providers = append(opened.providers, diff.Provider{Name: p.Name, Type: string(p.Type), Version: p.Version, Image: p.Origin.Image, Objects: p.Objects})
	}
	return opened, nil
}

// render renders what a cluster of the platform gets; without one, every provider by
// itself, because those of several platforms may bring the same objects.
func (o *sideOptions) render(results []extractor.Result, variables map[string]string) ([]operand.Operand, error) {
	if o.platform != "" {
		bundles, err := operand.Select(o.platform, results)
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
