// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"encoding/json"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// contentInput is what a content ID is the SHA-256 of, as compact JSON with the
// fields in this order. JSON frames the values: no two inputs give the same
// bytes. It must never change, because every cluster would take the change for
// new content and roll out a new revision.
type contentInput struct {
	Components []contentComponent `json:"components"`
	Variables  map[string]string  `json:"variables,omitempty"`
}

type contentComponent struct {
	Name       string                 `json:"name"`
	Type       extractor.ProviderType `json:"type"`
	ContentID  digest.Digest          `json:"contentID"`
	Image      string                 `json:"image,omitempty"`
	ConfigMaps []string               `json:"configMaps,omitempty"`
}

// ContentID identifies what is going to be installed by what it is made from:
// per bundle, in order, the provider's name and type, the digest of its
// manifests, and its payload image or ConfigMaps; and those of the variables that
// the manifests ask for. It does not depend on how the objects are rendered.
func ContentID(bundles []extractor.Bundle, variables map[string]string) digest.Digest {
	input := contentInput{Components: make([]contentComponent, len(bundles)), Variables: used(bundles, variables)}
	for i, bundle := range bundles {
		input.Components[i] = contentComponent{
			Name:       bundle.Metadata.ProviderName,
			Type:       bundle.Metadata.ProviderType,
			ContentID:  bundle.Metadata.ContentID,
			Image:      bundle.Origin.Image,
			ConfigMaps: bundle.Origin.ConfigMaps,
		}
	}
	encoded, err := json.Marshal(input)
	if err != nil {
		return "" // cannot be: strings, slices and maps of strings always have a JSON form
	}
	return digest.FromBytes(encoded)
}
