// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ImageOf returns the image of an index for a platform, as defined by
// Registry.Platform. The error is an extractor.ErrInvalid.
func ImageOf(index v1.ImageIndex, platform v1.Platform) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, invalid(fmt.Errorf("parsing the index: %w", err))
	}
	child, err := pickPlatform(manifest.Manifests, platform)
	if err != nil {
		return nil, invalid(fmt.Errorf("reading the index: %w", err))
	}
	image, err := index.Image(child.Digest)
	if err != nil {
		return nil, fmt.Errorf("reading the image for %s: %w", child.Platform, err)
	}
	return image, nil
}
