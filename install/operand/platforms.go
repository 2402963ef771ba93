// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// Platforms are the platforms of a cluster: in OpenShift the platform type, such as "AWS"; in
// other clusters one or more names, each with its own infrastructure provider.
type Platforms []string

// platformNone is the platform of clusters that provision no infrastructure, and need no
// infrastructure provider.
const platformNone = "None"

// ParsePlatforms parses platforms that are separated by commas, such as "AWS,Docker". It
// returns none for an empty text.
func ParsePlatforms(text string) (Platforms, error) {
	if text == "" {
		return nil, nil
	}
	var platforms Platforms
	for name := range strings.SplitSeq(text, ",") {
		switch {
		case !extractor.IsPlatformName(name):
			return nil, fmt.Errorf("invalid platform %q: want a letter, followed by letters, digits and dashes", name)
		case slices.Contains(platforms, name):
			return nil, fmt.Errorf("invalid platforms %q: %s occurs more than once", text, name)
		}
		platforms = append(platforms, name)
	}
	if len(platforms) > 1 && slices.Contains(platforms, platformNone) {
		return nil, fmt.Errorf("invalid platforms %q: %s excludes other platforms", text, platformNone)
	}
	return platforms, nil
}

// String returns the platforms, separated by commas.
func (p Platforms) String() string { return strings.Join(p, ",") }

// Include reports whether a bundle for a platform is installed; empty means that the
// bundle is for every platform. The comparison is case-sensitive.
func (p Platforms) Include(platform string) bool {
	return platform == "" || slices.Contains(p, platform)
}

// ImagePlatforms records the images that have no bundle for the cluster. It maps
// the digest of an image to the platforms of its bundles, sorted; the list is empty
// for an image without any bundle. A digest identifies the content, so an entry
// never becomes outdated.
type ImagePlatforms map[digest.Digest][]string

// OtherPlatforms returns the images among results that have no bundle for the platforms.
func OtherPlatforms(platforms Platforms, results []extractor.Result) ImagePlatforms {
	images := ImagePlatforms{}
	for _, result := range results {
		matching, others := divide(platforms, result.Bundles)
		if len(matching) > 0 || result.Err != nil && len(others) == 0 || digestOf(result) == "" {
			continue
		}
		names := []string{}
		for _, bundle := range others {
			names = append(names, bundle.Metadata.OCPPlatform)
		}
		slices.Sort(names)
		images[digestOf(result)] = slices.Compact(names)
	}
	return images
}

// Complete returns the results. In them, a recorded image that could not be read
// has an empty bundle per platform. Select ignores such an image.
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
