// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// LostError says that an image which brought a provider does not bring it any more.
type LostError struct {
	Provider string
	Type     extractor.ProviderType
	// Image is the image's key in images.json, Reference what it names.
	Image, Reference string
	// Overridden says that the image is that of spec.imageOverrides.
	Overridden bool
	// Holds describes what the image brings instead.
	Holds []string
}

func (e *LostError) Error() string {
	holds := "no provider"
	if len(e.Holds) > 0 {
		holds = strings.Join(e.Holds, ", ")
	}
	text := fmt.Sprintf("image %s (%s) brought provider %s of type %s and now holds %s", e.Image, e.Reference, e.Provider, e.Type, holds)
	if e.Overridden {
		return text + "; mend the image, or remove it from spec.imageOverrides"
	}
	return text + "; an image that has lost its manifests would uninstall the provider: a release without it does not list the image"
}

// Lost keeps a provider from being uninstalled by a mistake in its image. former
// are the components of the version before. It returns an error, joined of
// *LostErrors, for each component whose image is still one of the release's and
// holds no bundle any more, and for each whose image is overridden by one without a provider
// of that type. A provider whose image is no longer listed may go, and so may one
// that comes from somewhere else now.
func Lost(former []v1alpha1.Component, selected []extractor.Bundle, results []extractor.Result) error {
	var errs []error
	for _, component := range former {
		at := slices.IndexFunc(results, func(r extractor.Result) bool { return r.Image.Name == component.Source })
		if component.Image == "" || at < 0 || has(selected, component) {
			continue
		}
		image := results[at].Image
		holds := brought(selected, image.Name)
		if image.Overridden && hasType(holds, component.Type) || !image.Overridden && len(results[at].Bundles) > 0 {
			continue
		}
		errs = append(errs, &LostError{
			Provider: component.Name, Type: extractor.ProviderType(component.Type),
			Image: image.Name, Reference: image.Reference, Overridden: image.Overridden, Holds: describeProviders(holds),
		})
	}
	return errors.Join(errs...)
}

// has says whether a component's provider is among the bundles, wherever it comes from.
func has(bundles []extractor.Bundle, component v1alpha1.Component) bool {
	return slices.ContainsFunc(bundles, func(b extractor.Bundle) bool {
		return b.Metadata.ProviderName == component.Name && string(b.Metadata.ProviderType) == component.Type
	})
}

// brought are the bundles that come from the image with that key in images.json.
func brought(bundles []extractor.Bundle, image string) (found []extractor.Bundle) {
	for _, bundle := range bundles {
		if bundle.Origin.Image != "" && bundle.Origin.Name == image {
			found = append(found, bundle)
		}
	}
	return found
}

func hasType(bundles []extractor.Bundle, providerType string) bool {
	return slices.ContainsFunc(bundles, func(b extractor.Bundle) bool { return string(b.Metadata.ProviderType) == providerType })
}

func describeProviders(bundles []extractor.Bundle) (names []string) {
	for _, bundle := range bundles {
		names = append(names, fmt.Sprintf("%s of type %s", bundle.Metadata.ProviderName, bundle.Metadata.ProviderType))
	}
	return names
}
