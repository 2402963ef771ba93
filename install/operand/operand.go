// SPDX-License-Identifier: Apache-2.0

// Package operand selects the providers of a cluster from the bundles of a release
// and renders their objects. It is pure: it has no client and no context.
//
// Select returns the bundles for the platform of the cluster, in install order,
// unless a required provider is missing. Render converts them into objects.
package operand

import (
	"encoding/json"
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Inputs determine a set.
type Inputs struct {
	// Bundles are in install order, as Select returns them.
	Bundles []extractor.Bundle
	// Variables are values for variables in the manifests.
	Variables map[string]string
	// Settings are rendered into the objects.
	Settings setting.Settings
}

// Operand is a provider with the objects to install.
type Operand struct {
	Name string
	// Type is empty for a bundle that is not a provider.
	Type      extractor.ProviderType
	Version   string
	ContentID digest.Digest
	Origin    extractor.Origin
	// Profile is the profile of the bundle; empty if its layout has none, and in a stored version.
	Profile string
	// InstalledAs is the version that first rendered exactly these objects, and that they name as their owner; empty if the
	// version of this set did. Rendering leaves it empty.
	InstalledAs string
	// Settings are the names of the settings that the objects have; empty in a stored version.
	Settings []string
	// Objects are the rendered objects, in the order of the manifests file.
	Objects []*unstructured.Unstructured
}

// Set is the providers of a cluster, in install order.
type Set struct {
	// ContentID identifies the inputs of the set.
	ContentID digest.Digest
	// Variables are the values of the variables that the manifests use.
	Variables map[string]string
	// SecretsDigest identifies the values of the placeholders in the objects; empty if there are none.
	SecretsDigest digest.Digest
	Operands      []Operand
}

// Revealed returns the set with values in place of placeholders.
func (s Set) Revealed(secrets setting.Secrets) Set {
	s.Operands = slices.Clone(s.Operands)
	for i := range s.Operands {
		s.Operands[i].Objects = secrets.RevealAll(s.Operands[i].Objects)
	}
	return s
}

// Objects returns the objects of all components.
func (s Set) Objects() (objects []*unstructured.Unstructured) {
	for _, component := range s.Operands {
		objects = append(objects, component.Objects...)
	}
	return objects
}

// Components returns the operands as components of status.versions of the
// ClusterAPI, in install order: without objects, each with its image or its
// ConfigMaps.
func (s Set) Components() []v1alpha1.Component {
	components := make([]v1alpha1.Component, len(s.Operands))
	for i, operand := range s.Operands {
		components[i] = v1alpha1.Component{
			Name:       operand.Name,
			Type:       string(operand.Type),
			Version:    operand.Version,
			ContentID:  v1alpha1.Digest(operand.ContentID),
			Source:     operand.Origin.Name,
			Overridden: operand.Origin.Overridden,
			Image:      v1alpha1.ImageReference(operand.Origin.Image),
			Profile:    operand.Profile,
			ConfigMaps: slices.Clone(operand.Origin.ConfigMaps),

			InstalledAs: operand.InstalledAs,
			Settings:    operand.Settings,
		}
	}
	return components
}

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
