// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Base returns a base, a v1.Image or a v1.ImageIndex, and its name by digest. base is an image, an OCI layout or an archive. platform
// selects an image of an index; nil selects the index.
func Base(ctx context.Context, client *fetch.Client, base string, platform *v1.Platform) (mutate.Appendable, string, error) {
	found, name, err := findBase(ctx, client, base)
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

func findBase(ctx context.Context, client *fetch.Client, base string) (mutate.Appendable, string, error) {
	kind, err := source.KindOf(base)
	switch {
	case err != nil:
		return nil, "", err
	case kind == source.Directory:
		return nil, "", fmt.Errorf("%s is not an OCI layout", base)
	case kind == source.Layout, kind == source.Archive:
		entry, err := term.Interruptible(ctx, func() (mutate.Appendable, error) { return source.EntryAt(base) })
		return entry, base, err
	}
	reference, err := source.Resolve(ctx, client, base)
	if err != nil {
		return nil, "", err
	}
	entry, err := source.Pull(ctx, client, reference)
	return entry, reference, err
}
