// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
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
	kind, err := source.KindOf(f.base)
	switch {
	case err != nil:
		return nil, "", err
	case kind == source.Directory:
		return nil, "", fmt.Errorf("%s is not an OCI layout", f.base)
	case kind == source.Layout, kind == source.Archive:
		entry, err := term.Interruptible(ctx, func() (mutate.Appendable, error) { return source.EntryAt(f.base) })
		return entry, f.base, err
	}
	reference, err := source.Resolve(ctx, f.base)
	if err != nil {
		return nil, "", err
	}
	entry, err := source.Pull(ctx, reference)
	return entry, reference, err
}
