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

// DroppedError reports an image that no longer contains a provider of the previous
// version.
type DroppedError struct {
	Provider string
	Type     extractor.ProviderType
	// Image is the key of the image in images.json, Reference its payload reference.
	Image, Reference string
	// Overridden is set if the image is from spec.imageOverrides.
	Overridden bool
	// Contains describes the providers that the image contains now.
	Contains []string
}

func (e *DroppedError) Error() string {
	contains := "no provider"
	if len(e.Contains) > 0 {
		contains = strings.Join(e.Contains, ", ")
	}
	text := fmt.Sprintf("image %s (%s): provider %s not found; the image now contains %s", e.Image, e.Reference, ofType(e.Provider, e.Type), contains)
	if e.Overridden {
		return text + "; correct the image, or remove it from spec.imageOverrides"
	}
	return text + "; to uninstall a provider, a release removes its image from images.json"
}

// CheckDropped prevents a defective image from uninstalling its provider. former
// are the components of the previous version. It returns joined *DroppedErrors: one
// for each component whose image is still listed but no longer contains a bundle,
// and one for each component whose image is overridden by an image without a
// provider of that type. A provider may be dropped if its image is no longer
// listed, or if another image or ConfigMap contains the provider.
func CheckDropped(former []v1alpha1.Component, selected []extractor.Bundle, results []extractor.Result) error {
	var errs []error
	for _, component := range former {
		at := slices.IndexFunc(results, func(r extractor.Result) bool { return r.Image.Name == component.Source })
		if component.Image == "" || at < 0 || Has(selected, component) {
			continue
		}
		image := results[at].Image
		bundles := bundlesOfImage(selected, image.Name)
		if image.Overridden && hasType(bundles, component.Type) || !image.Overridden && len(results[at].Bundles) > 0 {
			continue
		}
		errs = append(errs, &DroppedError{
			Provider: component.Name, Type: extractor.ProviderType(component.Type),
			Image: image.Name, Reference: image.Reference, Overridden: image.Overridden, Contains: describeProviders(bundles),
		})
	}
	return errors.Join(errs...)
}

// Has reports whether the provider of a component is among the bundles, from any source.
func Has(bundles []extractor.Bundle, component v1alpha1.Component) bool {
	return slices.ContainsFunc(bundles, func(b extractor.Bundle) bool {
		return b.Metadata.ProviderName == component.Name && string(b.Metadata.ProviderType) == component.Type
	})
}

// bundlesOfImage returns the bundles that come from the image with a key of images.json.
func bundlesOfImage(bundles []extractor.Bundle, key string) (found []extractor.Bundle) {
	for _, bundle := range bundles {
		if bundle.Origin.Image != "" && bundle.Origin.Name == key {
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
		names = append(names, ofType(bundle.Metadata.ProviderName, bundle.Metadata.ProviderType))
	}
	return names
}
