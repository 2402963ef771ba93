// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"encoding/json"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// contentInput is the input of a content ID: the SHA-256 of its compact JSON with
// the fields in this order. JSON delimits the values, so that different inputs
// never give the same bytes. The format must never change, because every cluster
// would roll out a new revision.
type contentInput struct {
	Components []contentComponent  `json:"components"`
	Variables  map[string]string   `json:"variables,omitempty"`
	Placement  *v1alpha1.Placement `json:"placement,omitempty"`
	// Secrets is the digest of the values of Secrets, which has a salt.
	Secrets digest.Digest `json:"secrets,omitempty"`
}

type contentComponent struct {
	Name       string                 `json:"name"`
	Type       extractor.ProviderType `json:"type"`
	ContentID  digest.Digest          `json:"contentID"`
	Image      string                 `json:"image,omitempty"`
	ConfigMaps []string               `json:"configMaps,omitempty"`

	Settings *v1alpha1.ComponentSettings `json:"settings,omitempty"`
}

// ContentID returns the identity of a set, computed from its inputs: for each
// bundle, in order, the provider's name and type, the digest of its manifests, its payload image or ConfigMaps, and
// its settings; the values of the variables that the manifests use; the placement; and the values of Secrets, with a salt. It does not depend on the code that renders the objects.
func ContentID(inputs Inputs) digest.Digest {
	input := contentInput{
		Components: make([]contentComponent, len(inputs.Bundles)), Variables: usedVariables(inputs.Bundles, inputs.Variables),
		Placement: inputs.Settings.Placement, Secrets: inputs.Settings.Secrets.Digest(),
	}
	for i, bundle := range inputs.Bundles {
		input.Components[i] = contentComponent{
			Name:       bundle.Metadata.ProviderName,
			Type:       bundle.Metadata.ProviderType,
			ContentID:  bundle.Metadata.ContentID,
			Image:      bundle.Origin.Image,
			ConfigMaps: bundle.Origin.ConfigMaps,
			Settings:   inputs.Settings.For(bundle.Metadata.ProviderName).Own,
		}
	}
	encoded, err := json.Marshal(input)
	if err != nil {
		return "" // unreachable: strings, slices and maps of strings always have a JSON form
	}
	return digest.FromBytes(encoded)
}

// usedVariables returns the values of the variables that the manifests of the
// bundles use; nil if there are none. Other variables do not belong to a set: a
// change of the cluster's proxy, for example, creates no new revision unless a
// provider uses it.
func usedVariables(bundles []extractor.Bundle, values map[string]string) map[string]string {
	var used map[string]string
	for _, bundle := range bundles {
		for name := range variable.Names(bundle.Manifests) {
			value, known := values[name]
			if !known {
				continue
			}
			if used == nil {
				used = map[string]string{}
			}
			used[name] = value
		}
	}
	return used
}
