// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// ImagePlatforms records the images that have no bundle for the cluster. It maps
// the digest of an image to the platforms of its bundles, sorted; the list is empty
// for an image without any bundle. A digest identifies the content, so an entry
// never becomes outdated.
type ImagePlatforms map[digest.Digest][]string

// OtherPlatforms returns the images among results that have no bundle for platform.
func OtherPlatforms(platform string, results []extractor.Result) ImagePlatforms {
	images := ImagePlatforms{}
	for _, result := range results {
		matching, others := divide(platform, result.Bundles)
		if len(matching) > 0 || result.Err != nil && len(others) == 0 || digestOf(result) == "" {
			continue
		}
		platforms := []string{}
		for _, bundle := range others {
			platforms = append(platforms, bundle.Metadata.OCPPlatform)
		}
		slices.Sort(platforms)
		images[digestOf(result)] = slices.Compact(platforms)
	}
	return images
}

// Complete returns results in which each recorded image that could not be read has
// an empty bundle per platform. Select ignores such an image.
func (p ImagePlatforms) Complete(results []extractor.Result) []extractor.Result {
	completed := slices.Clone(results)
	for i := range completed {
		platforms, known := p[digestOf(completed[i])]
		if completed[i].Err == nil || len(completed[i].Bundles) > 0 || !known {
			continue
		}
		if len(platforms) == 0 {
			completed[i].Err = nil // the image has no bundle
		}
		for _, platform := range platforms {
			completed[i].Bundles = append(completed[i].Bundles, extractor.Bundle{Metadata: extractor.Metadata{OCPPlatform: platform}})
		}
	}
	return completed
}

// digestOf returns the digest of a result's image; empty for ConfigMaps.
func digestOf(result extractor.Result) digest.Digest {
	_, hash, _ := strings.Cut(result.Image.Reference, "@")
	return digest.Digest(hash)
}
