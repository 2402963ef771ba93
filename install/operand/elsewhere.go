// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// Elsewhere is what is known of images that hold nothing for a cluster: by the
// image's digest, the platforms that its bundles are for, sorted; none of an image
// that holds no bundle. A digest says all about an image, so this stays true.
type Elsewhere map[digest.Digest][]string

// NotedElsewhere returns what results tell of images that hold nothing for platform.
func NotedElsewhere(platform string, results []extractor.Result) Elsewhere {
	noted := Elsewhere{}
	for _, result := range results {
		here, elsewhere := divide(platform, result.Bundles)
		if len(here) > 0 || result.Err != nil && len(elsewhere) == 0 || digestOf(result) == "" {
			continue
		}
		platforms := []string{}
		for _, bundle := range elsewhere {
			platforms = append(platforms, bundle.Metadata.OCPPlatform)
		}
		slices.Sort(platforms)
		noted[digestOf(result)] = slices.Compact(platforms)
	}
	return noted
}

// Recall completes results of images that could not be read with what is known of
// them: Select passes over an image that is for other platforms.
func (e Elsewhere) Recall(results []extractor.Result) []extractor.Result {
	recalled := slices.Clone(results)
	for i := range recalled {
		platforms, known := e[digestOf(recalled[i])]
		if recalled[i].Err == nil || len(recalled[i].Bundles) > 0 || !known {
			continue
		}
		if len(platforms) == 0 {
			recalled[i].Err = nil // there is nothing in it
		}
		for _, platform := range platforms {
			recalled[i].Bundles = append(recalled[i].Bundles, extractor.Bundle{Metadata: extractor.Metadata{OCPPlatform: platform}})
		}
	}
	return recalled
}

// digestOf is the digest of a result's image; empty if the result is not that of an image.
func digestOf(result extractor.Result) digest.Digest {
	_, hash, _ := strings.Cut(result.Image.Reference, "@")
	return digest.Digest(hash)
}
