// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Packed is a packed image: the output of the command pack.
type Packed struct {
	// Reference is the pushed image by digest; empty if it was not pushed.
	Reference string `json:"reference,omitempty"`
	Digest    string `json:"digest"`
	// Layout is the directory of the OCI layout and Archive the file of the OCI
	// archive; empty if not written.
	Layout  string `json:"layout,omitempty"`
	Archive string `json:"archive,omitempty"`
	// Base is the base image by digest, or its path; empty if there is none.
	Base string `json:"base,omitempty"`
	// Platforms are the platforms of the packed images.
	Platforms []string `json:"platforms,omitempty"`
	// Omitted are the entries of the base index that the packed index does not
	// contain.
	Omitted  []pack.OmittedEntry `json:"leftOut,omitempty"`
	Metadata extractor.Metadata  `json:"metadata"`

	// Image is a v1.Image or a v1.ImageIndex.
	Image mutate.Appendable `json:"-"`
}

// Pack packs the bundle on base: nil, a v1.Image or a v1.ImageIndex.
func (p *Packed) Pack(packer pack.Packer, base mutate.Appendable, bundle extractor.Bundle) (err error) {
	if index, is := base.(v1.ImageIndex); is {
		p.Image, p.Omitted, err = packer.Index(index, bundle)
	} else {
		image, _ := base.(v1.Image)
		p.Image, err = packer.Image(image, bundle)
	}
	if err != nil {
		return err
	}
	digest, err := p.Image.Digest()
	if err != nil {
		return fmt.Errorf("computing the image's digest: %w", err)
	}
	p.Digest = digest.String()
	if p.Platforms, err = Platforms(p.Image); err != nil {
		return fmt.Errorf("reading the image's platforms: %w", err)
	}
	return nil
}

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
		entry, err := source.EntryAt(base)
		return entry, base, err
	}
	reference, err := source.Resolve(ctx, client, base)
	if err != nil {
		return nil, "", err
	}
	entry, err := source.Pull(ctx, client, reference)
	return entry, reference, err
}
