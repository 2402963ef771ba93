// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capi-installer/capi-installer/extractor/remote"
)

// baseImage returns the base, a v1.Image or a v1.ImageIndex, and its name by digest; nil without --base.
func (f *packFlags) baseImage(ctx context.Context, platform *v1.Platform) (mutate.Appendable, string, error) {
	if f.base == "" {
		return nil, "", nil
	}
	found, name, err := f.findBase(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("reading the base: %w", err)
	}
	index, isIndex := found.(v1.ImageIndex)
	if platform == nil || !isIndex {
		return found, name, nil
	}
	image, err := remote.ImageOf(index, *platform)
	if err != nil {
		return nil, "", fmt.Errorf("reading the base %s: %w", name, err)
	}
	return image, name, nil
}

func (f *packFlags) findBase(ctx context.Context) (mutate.Appendable, string, error) {
	kind, err := kindOf(f.base)
	switch {
	case err != nil:
		return nil, "", err
	case kind == isDirectory:
		return nil, "", fmt.Errorf("%s is not an OCI layout", f.base)
	case kind == isLayout, kind == isArchive:
		entry, err := entryAt(kind, f.base)
		return entry, f.base, err
	}
	reference, err := resolve(ctx, f.base)
	if err != nil {
		return nil, "", err
	}
	entry, err := pulledBase(ctx, reference)
	return entry, reference, err
}

// pulledBase returns what a reference by digest names, from the first of its sources that has it.
func pulledBase(ctx context.Context, reference string) (mutate.Appendable, error) {
	access, err := userAccess()
	if err != nil {
		return nil, err
	}
	sources, err := access.Mirrors.Sources(reference)
	if err != nil {
		return nil, err
	}
	descriptor, err := firstOf(ctx, access, sources, ggcr.Get)
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", reference, err)
	}
	if descriptor.MediaType.IsIndex() {
		return descriptor.ImageIndex()
	}
	return descriptor.Image()
}
