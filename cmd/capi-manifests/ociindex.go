// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archivedIndex is a v1.ImageIndex in an OCI archive.
type archivedIndex struct {
	archive    *ociArchive
	descriptor v1.Descriptor
}

func (i *archivedIndex) MediaType() (types.MediaType, error) { return i.descriptor.MediaType, nil }
func (i *archivedIndex) Digest() (v1.Hash, error)            { return i.descriptor.Digest, nil }
func (i *archivedIndex) Size() (int64, error)                { return i.descriptor.Size, nil }

func (i *archivedIndex) RawManifest() ([]byte, error) { return i.archive.verified(i.descriptor.Digest) }

func (i *archivedIndex) IndexManifest() (*v1.IndexManifest, error) {
	raw, err := i.RawManifest()
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, damaged("parsing the index %s: %w", i.descriptor.Digest, err)
	}
	return index, nil
}

// Image returns an image that the index lists.
func (i *archivedIndex) Image(digest v1.Hash) (v1.Image, error) {
	manifest, err := i.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, entry := range manifest.Manifests {
		if entry.Digest == digest {
			return partial.CompressedToImage(&archivedImage{archive: i.archive, descriptor: entry})
		}
	}
	return nil, damaged("the index has no image %s", digest)
}

// ImageIndex returns no index: nobody asks for one inside another.
func (i *archivedIndex) ImageIndex(digest v1.Hash) (v1.ImageIndex, error) { //nolint:unparam // v1.ImageIndex has the method
	return nil, damaged("the index has no index %s", digest)
}

// onlyEntry returns the entry of an index.json: an image, or an index.
func onlyEntry(index *v1.IndexManifest) (v1.Descriptor, error) {
	entries := index.Manifests
	if len(entries) != 1 || !entries[0].MediaType.IsImage() && !entries[0].MediaType.IsIndex() {
		return v1.Descriptor{}, damaged("it has %d entries in index.json; one, an image or an index, is wanted", len(entries))
	}
	return entries[0], nil
}

// entry returns what the archive holds: a v1.Image or a v1.ImageIndex.
func (a *ociArchive) entry() (mutate.Appendable, error) {
	raw, err := a.small("index.json")
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, damaged("parsing index.json: %w", err)
	}
	entry, err := onlyEntry(index)
	if err != nil {
		return nil, err
	}
	if _, err := a.verified(entry.Digest); err != nil {
		return nil, err
	}
	if entry.MediaType.IsIndex() {
		return &archivedIndex{a, entry}, nil
	}
	return partial.CompressedToImage(&archivedImage{archive: a, descriptor: entry})
}
