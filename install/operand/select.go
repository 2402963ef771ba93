// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/extractor"
)

// Select returns the bundles for the platforms of a cluster in install order: by
// provider type, then by the install order of the bundle, then by name. Bundles
// without a type come last. If every bundle has an install order, it alone decides,
// as it does for cluster-capi-operator.
//
// Of an image with several profiles, each profile for the platforms is selected. If
// they have one provider name, the profile is appended to all but one of the names.
//
// It prevents incomplete revisions. It returns an error and no bundles unless every
// image was read, a core provider and an infrastructure provider for each platform
// exist (platform "None" needs only the former), and no two images define one provider.
// It ignores an image that could not be read if its result has bundles, all for
// other platforms. A result with an error may therefore have bundles only if they
// represent all bundles of the image.
//
// The error joins all findings: *ImageError, *MissingError, *DuplicateError. While
// an image is unread, no provider is reported as missing.
func Select(platforms Platforms, results []extractor.Result) ([]extractor.Bundle, error) {
	var selected, others []extractor.Bundle
	var failed []*ImageError
	for _, result := range results {
		matching, mismatching := divide(platforms, result.Bundles)
		if result.Err != nil && (len(matching) > 0 || len(mismatching) == 0) {
			failed = append(failed, &ImageError{Name: result.Image.Name, Reference: result.Image.Reference, Overridden: result.Image.Overridden, Err: result.Err})
			continue
		}
		selected, others = append(selected, matching...), append(others, mismatching...)
	}
	selected = distinguish(selected)
	errs := slices.Concat(byCause(failed), duplicates(selected))
	if len(failed) == 0 {
		errs = append(errs, missing(platforms, selected, others)...)
	}
	if err := errors.Join(errs...); err != nil {
		_, unused := Unselected(platforms, results) // an override can be the cause
		return nil, errors.Join(err, unused.ToAggregate())
	}
	slices.SortStableFunc(selected, order(selected))
	return selected, nil
}

// distinguish returns the bundles with a name of its own for each profile of an image, because the objects of a component
// are identified by its name. The profile for every platform keeps the name.
func distinguish(bundles []extractor.Bundle) []extractor.Bundle {
	type provider struct{ image, name string }
	keyOf := func(b extractor.Bundle) provider { return provider{b.Origin.Image, b.Metadata.ProviderName} }
	keeps := map[provider]int{}
	for i, bundle := range bundles {
		if at, found := keeps[keyOf(bundle)]; !found || byProfile(bundle, bundles[at]) < 0 {
			keeps[keyOf(bundle)] = i
		}
	}
	named := slices.Clone(bundles)
	for i, bundle := range bundles {
		if bundle.Profile != "" && keeps[keyOf(bundle)] != i {
			named[i].Metadata.ProviderName += "-" + notInName.ReplaceAllString(strings.ToLower(bundle.Profile), "-")
		}
	}
	return named
}

func byProfile(a, b extractor.Bundle) int {
	return cmp.Or(cmp.Compare(a.Metadata.OCPPlatform, b.Metadata.OCPPlatform), cmp.Compare(a.Profile, b.Profile))
}

// notInName matches text that may occur in the name of a profile, but not in a provider's name.
var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// Unselected explains why providers of the release are not selected, by name, and returns an error for each override of an image from which
// no bundle is selected.
func Unselected(platforms Platforms, results []extractor.Result) (providers map[string]string, unused field.ErrorList) {
	providers = map[string]string{}
	for _, result := range results {
		selected, others := divide(platforms, result.Bundles)
		why := "the image has no bundle"
		for _, bundle := range others {
			why = fmt.Sprintf("is for platform %s, and this cluster has platform %s", bundle.Metadata.OCPPlatform, platforms)
			providers[bundle.Metadata.ProviderName] = why
		}
		if result.Image.Overridden && result.Err == nil && len(selected) == 0 {
			unused = append(unused, field.Invalid(field.NewPath("spec", "imageOverrides").Key(result.Image.Name), result.Image.Reference, why))
		}
	}
	return providers, unused
}

// divide separates the bundles for some platforms from those for other platforms.
func divide(platforms Platforms, bundles []extractor.Bundle) (matching, others []extractor.Bundle) {
	for _, bundle := range bundles {
		if platforms.Include(bundle.Metadata.OCPPlatform) {
			matching = append(matching, bundle)
		} else {
			others = append(others, bundle)
		}
	}
	return matching, others
}

// duplicates returns an error for each bundle of a provider after the first.
func duplicates(bundles []extractor.Bundle) []error {
	type provider struct {
		name         string
		providerType extractor.ProviderType
	}
	first := map[provider]extractor.Bundle{}
	var errs []error
	for _, bundle := range bundles {
		key := provider{bundle.Metadata.ProviderName, bundle.Metadata.ProviderType}
		before, found := first[key]
		if !found {
			first[key] = bundle
			continue
		}
		errs = append(errs, &DuplicateError{Provider: key.name, Type: key.providerType, First: source(before), Second: source(bundle)})
	}
	return errs
}

// missing returns an error for every required provider type without a bundle, and for
// every platform without an infrastructure provider.
func missing(platforms Platforms, selected, others []extractor.Bundle) []error {
	errs := missingType(extractor.Core, platforms.String(), platforms, selected, others)
	for _, platform := range platforms {
		if platform != platformNone {
			errs = append(errs, missingType(extractor.Infrastructure, platform, Platforms{platform}, selected, others)...)
		}
	}
	return errs
}

// missingType returns an error if no bundle of a type is for one of the platforms.
func missingType(providerType extractor.ProviderType, name string, platforms Platforms, selected, others []extractor.Bundle) []error {
	is := func(b extractor.Bundle) bool { return b.Metadata.ProviderType == providerType }
	if slices.ContainsFunc(selected, func(b extractor.Bundle) bool { return is(b) && platforms.Include(b.Metadata.OCPPlatform) }) {
		return nil
	}
	return []error{&MissingError{Type: providerType, Platform: name, Have: have(others, is)}}
}

// have lists the bundles of a type for other platforms.
func have(others []extractor.Bundle, is func(extractor.Bundle) bool) []string {
	var found []string
	for _, bundle := range others {
		if is(bundle) {
			found = append(found, fmt.Sprintf("%s for %s in %s", bundle.Metadata.ProviderName, bundle.Metadata.OCPPlatform, bundle.Origin.Name))
		}
	}
	slices.Sort(found)
	return found
}

// order returns the comparison that puts bundles in install order.
func order(bundles []extractor.Bundle) func(a, b extractor.Bundle) int {
	byType := slices.ContainsFunc(bundles, func(b extractor.Bundle) bool { return b.Metadata.InstallOrder == 0 })
	return func(a, b extractor.Bundle) int {
		types := 0
		if byType {
			types = cmp.Compare(typeRank(a.Metadata.ProviderType), typeRank(b.Metadata.ProviderType))
		}
		return cmp.Or(
			types,
			cmp.Compare(orderRank(a.Metadata.InstallOrder), orderRank(b.Metadata.InstallOrder)),
			cmp.Compare(a.Metadata.OCPPlatform, b.Metadata.OCPPlatform),
			cmp.Compare(a.Metadata.ProviderName, b.Metadata.ProviderName),
		)
	}
}

// typeRank returns the position of a type; unknown types come last.
func typeRank(providerType extractor.ProviderType) int {
	types := extractor.ProviderTypes()
	if at := slices.Index(types, providerType); at >= 0 {
		return at
	}
	return len(types)
}

// orderRank sorts bundles without an install order last.
func orderRank(order int) int {
	if order == 0 {
		return math.MaxInt
	}
	return order
}

// machineManagement is the beginning of the feature gates of Cluster API on platforms.
const machineManagement = "ClusterAPIMachineManagement"

// gatedPlatforms are the platforms on which OpenShift supports Cluster API, if the feature gate with the name of the platform is enabled.
var gatedPlatforms = map[string]bool{
	"AWS": true, "Azure": true, "BareMetal": true, "GCP": true, "OpenStack": true, "PowerVS": true, "VSphere": true,
}

// UnsupportedError reports that OpenShift does not support Cluster API on the platform of a cluster.
type UnsupportedError struct {
	Platform string
	// Gate is the feature gate that is not enabled; empty if OpenShift never supports Cluster API on the platform.
	Gate string
}

func (e *UnsupportedError) Error() string {
	if e.Gate != "" {
		return fmt.Sprintf("Cluster API is not supported on platform %s: feature gate %s is not enabled", e.Platform, e.Gate)
	}
	return "Cluster API is not supported on platform " + e.Platform
}

// CheckSupport returns an *UnsupportedError unless OpenShift supports Cluster API on a platform. It decides as cluster-capi-operator:
// by the feature gate of the platform, regardless of the images of the release.
func CheckSupport(platform string, isEnabled func(gate string) bool) error {
	if !gatedPlatforms[platform] {
		return &UnsupportedError{Platform: platform}
	}
	if gate := machineManagement + platform; !isEnabled(gate) {
		return &UnsupportedError{Platform: platform, Gate: gate}
	}
	return nil
}
