// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/capi-installer/capi-installer/extractor"
)

// platformNone is the OpenShift platform type of clusters without any
// infrastructure to provision, hence without an infrastructure provider.
const platformNone = "None"

// Select returns the bundles that a cluster on platform (an OpenShift
// PlatformType such as "AWS") gets, in install order: by provider type, then by
// the bundles' own install order, then by name.
//
// It is the gate that keeps incomplete revisions from being made. It returns an
// error, and no bundles, unless every image was read, a core provider and an
// infrastructure provider for the platform are there (none is asked for on
// platform "None"), and no provider comes twice. An image that could not be read
// is passed over if its result has bundles all the same and all of them are for
// other platforms; a result with an error may therefore have bundles only where
// it has one for everything the image holds.
//
// The error joins every finding: *ImageError, *MissingError, *DuplicateError.
// Nothing is reported as missing while an image that may hold it is unread.
func Select(platform string, results []extractor.Result) ([]extractor.Bundle, error) {
	var selected, others []extractor.Bundle
	var failed []error
	for _, result := range results {
		here, elsewhere := divide(platform, result.Bundles)
		if result.Err != nil && (len(here) > 0 || len(elsewhere) == 0) {
			failed = append(failed, &ImageError{Name: result.Image.Name, Reference: result.Image.Reference, Overridden: result.Image.Overridden, Err: result.Err})
			continue
		}
		selected, others = append(selected, here...), append(others, elsewhere...)
	}
	errs := slices.Concat(failed, duplicates(selected))
	if len(failed) == 0 {
		errs = append(errs, missing(platform, selected, others)...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(selected, compare)
	return selected, nil
}

// divide tells the bundles for a platform from those for other platforms.
func divide(platform string, bundles []extractor.Bundle) (here, elsewhere []extractor.Bundle) {
	for _, bundle := range bundles {
		if bundle.Metadata.OCPPlatform == "" || bundle.Metadata.OCPPlatform == platform {
			here = append(here, bundle)
		} else {
			elsewhere = append(elsewhere, bundle)
		}
	}
	return here, elsewhere
}

// duplicates returns an error for every provider that comes more than once.
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

// missing returns an error for every provider type that must be there and is not.
func missing(platform string, selected, others []extractor.Bundle) []error {
	required := []extractor.ProviderType{extractor.Core, extractor.Infrastructure}
	if platform == platformNone {
		required = required[:1]
	}
	var errs []error
	for _, providerType := range required {
		is := func(b extractor.Bundle) bool { return b.Metadata.ProviderType == providerType }
		if !slices.ContainsFunc(selected, is) {
			errs = append(errs, &MissingError{Type: providerType, Platform: platform, Have: have(others, is)})
		}
	}
	return errs
}

// have describes those bundles for other platforms that would do otherwise.
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

// compare orders bundles as they are installed.
func compare(a, b extractor.Bundle) int {
	return cmp.Or(
		cmp.Compare(typeRank(a.Metadata.ProviderType), typeRank(b.Metadata.ProviderType)),
		cmp.Compare(orderRank(a.Metadata.InstallOrder), orderRank(b.Metadata.InstallOrder)),
		cmp.Compare(a.Metadata.ProviderName, b.Metadata.ProviderName),
	)
}

// typeRank puts types that are not known last.
func typeRank(providerType extractor.ProviderType) int {
	types := extractor.ProviderTypes()
	if at := slices.Index(types, providerType); at >= 0 {
		return at
	}
	return len(types)
}

// orderRank puts bundles without an install order after those that have one.
func orderRank(order int) int {
	if order == 0 {
		return math.MaxInt
	}
	return order
}
