// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
