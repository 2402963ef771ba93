// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcrtypes "github.com/google/go-containerregistry/pkg/v1/types"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/types"
)

// ImageOf returns the image of an index for a platform, as defined by
// Registry.Platform. The error is an extractor.ErrInvalid.
func ImageOf(index v1.ImageIndex, platform v1.Platform) (v1.Image, error) {
	raw, err := index.RawManifest()
	if err != nil {
		return nil, invalid(fmt.Errorf("reading the index: %w", err))
	}
	parsed, err := parseIndex(raw)
	if err == nil && parsed == nil {
		err = errors.New("it lists no manifests")
	}
	if err != nil {
		return nil, invalid(fmt.Errorf("reading the index: %w", err))
	}
	child, err := pickPlatform(raw, parsed, platform)
	if err == nil {
		err = checkManifestDigest(child)
	}
	if err != nil {
		return nil, invalid(fmt.Errorf("reading the index: %w", err))
	}
	image, err := index.Image(child.Digest)
	if err != nil {
		return nil, fmt.Errorf("reading the image%s: %w", forPlatform(child), err)
	}
	return image, nil
}

// forPlatform names the platform of an entry of an index, if it has one.
func forPlatform(entry v1.Descriptor) string {
	if entry.Platform == nil {
		return ""
	}
	return " for " + entry.Platform.String()
}

// pickPlatform returns the entry of an index that containers/image chooses for a platform. For the zero platform, it
// returns the first image for linux if there is no better one.
func pickPlatform(raw []byte, index *v1.IndexManifest, platform v1.Platform) (v1.Descriptor, error) {
	mediaType := cmp.Or(string(index.MediaType), manifest.GuessMIMEType(raw))
	if !manifest.MIMETypeIsMultiImage(mediaType) {
		mediaType = string(ggcrtypes.OCIImageIndex) // an empty index without a type
	}
	list, err := manifest.ListFromBlob(raw, mediaType)
	if err != nil {
		return v1.Descriptor{}, err
	}
	chosen, err := list.ChooseInstance(&types.SystemContext{OSChoice: cmp.Or(platform.OS, "linux"), ArchitectureChoice: platform.Architecture, VariantChoice: platform.Variant})
	if err != nil {
		return otherImage(index.Manifests, platform)
	}
	i := slices.IndexFunc(index.Manifests, func(entry v1.Descriptor) bool { return entry.Digest.String() == chosen.String() })
	switch {
	case i < 0:
		return v1.Descriptor{}, fmt.Errorf("invalid digest %q of an entry", chosen)
	case !isManifest(index.Manifests[i]):
		return v1.Descriptor{}, fmt.Errorf("the entry%s is not an image: it has the media type %q", forPlatform(index.Manifests[i]), index.Manifests[i].MediaType)
	}
	return index.Manifests[i], nil
}

// otherImage returns the first image for linux, if the platform is the zero value.
func otherImage(entries []v1.Descriptor, platform v1.Platform) (v1.Descriptor, error) {
	var have []string
	for _, entry := range entries {
		if entry.Platform == nil || !isManifest(entry) {
			continue
		}
		if platform.OS == "" && platform.Architecture == "" && entry.Platform.OS == "linux" {
			return entry, nil
		}
		have = append(have, entry.Platform.String())
	}
	platform.OS, platform.Architecture = cmp.Or(platform.OS, "linux"), cmp.Or(platform.Architecture, runtime.GOARCH)
	if len(have) == 0 {
		return v1.Descriptor{}, fmt.Errorf("it has no image for %s, and none for another platform", platform.String())
	}
	return v1.Descriptor{}, fmt.Errorf("it has no image for %s, only for: %s", platform.String(), strings.Join(have, ", "))
}

func isManifest(entry v1.Descriptor) bool {
	return entry.MediaType == "" || entry.MediaType.IsImage() || entry.MediaType.IsSchema1()
}
