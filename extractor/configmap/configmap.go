// SPDX-License-Identifier: Apache-2.0

// Package configmap reads bundles from transport ConfigMaps. The cluster version
// operator creates them for providers whose images do not contain manifests yet.
// A bundle that is too large for one ConfigMap is split into slices. An example,
// in the namespace of the operands:
//
//	metadata:
//	  labels:
//	    capi-operator.openshift.io/manifest-bundle: aws
//	  annotations:
//	    capi-operator.openshift.io/release-version: 4.22.3
//	    capi-operator.openshift.io/provider-name: cluster-api-provider-aws
//	    capi-operator.openshift.io/provider-type: infrastructure
//	    capi-operator.openshift.io/provider-version: v2.10.0
//	    capi-operator.openshift.io/ocp-platform: AWS    # none: every platform
//	    capi-operator.openshift.io/content-id: sha256:… # of the joined manifests
//	    capi-operator.openshift.io/slice: "0"
//	    capi-operator.openshift.io/slices: "2"
//	data:
//	  manifests.yaml: …             # or in binaryData, as manifests.yaml.zst
//
// The manifests already contain the images of the release.
package configmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
)

// The keys of a transport ConfigMap. BundleLabel is a label with the name of the
// bundle. The others are annotations and data keys.
const (
	BundleLabel     = v1alpha1.Prefix + "/manifest-bundle"
	ReleaseVersion  = v1alpha1.Prefix + "/release-version"
	ProviderName    = v1alpha1.Prefix + "/provider-name"
	ProviderType    = v1alpha1.Prefix + "/provider-type"
	ProviderVersion = v1alpha1.Prefix + "/provider-version"
	OCPPlatform     = v1alpha1.Prefix + "/ocp-platform"
	ContentID       = v1alpha1.Prefix + "/content-id"
	Slice           = v1alpha1.Prefix + "/slice"
	Slices          = v1alpha1.Prefix + "/slices"

	Manifests           = "manifests.yaml"
	CompressedManifests = "manifests.yaml.zst"
)

// MaxSlices is the maximum number of ConfigMaps of a bundle: the limit of
// configMaps in the ClusterAPI status.
const MaxSlices = 64

// Error reports an invalid ConfigMap.
type Error struct {
	// ConfigMap is <namespace>/<name>, or several of them separated by ", ".
	ConfigMap string
	Err       error
}

// Error names the ConfigMap and the cause.
func (e *Error) Error() string { return "ConfigMap " + e.ConfigMap + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Bundles returns one result for each bundle in the ConfigMaps of a release,
// sorted by the bundle's name, the only set field of the image. It ignores
// ConfigMaps without the label, and bundles that have only ConfigMaps of other
// releases; Others returns the latter.
//
// All errors of a bundle are in its result, each of type *Error. They are an
// extractor.ErrInvalid, except for missing slices: they may be created later.
// Bundles fails only if release is empty.
func Bundles(configMaps []corev1.ConfigMap, release string) ([]extractor.Result, error) {
	if release == "" {
		return nil, errors.New("the release version is empty: it is required to select the transport ConfigMaps of the release")
	}
	parts, foreign := divide(configMaps, release)
	var results []extractor.Result
	for _, bundle := range slices.Sorted(maps.Keys(parts)) {
		results = append(results, result(bundle, parts[bundle], foreign[bundle]))
	}
	return results, nil
}

// divide groups the ConfigMaps of the release (parts) and of other releases (foreign)
// by bundle. A ConfigMap without release version counts as one of this release.
func divide(configMaps []corev1.ConfigMap, release string) (parts, foreign map[string][]bundleSlice) {
	parts, foreign = map[string][]bundleSlice{}, map[string][]bundleSlice{}
	for i := range configMaps {
		p := bundleSlice{ConfigMap: &configMaps[i]}
		bundle, labelled := p.Labels[BundleLabel]
		version := p.Annotations[ReleaseVersion]
		switch {
		case !labelled:
		case version == release || version == "":
			parts[bundle] = append(parts[bundle], p)
		default:
			foreign[bundle] = append(foreign[bundle], p)
		}
	}
	return parts, foreign
}

// OtherError reports that all ConfigMaps of a bundle belong to other releases. They
// are leftovers of an older release or about to be replaced.
type OtherError struct {
	// Bundle is the name of the bundle, Release the expected release.
	Bundle, Release string
	// Provider and Type are from the ConfigMaps.
	Provider string
	Type     extractor.ProviderType
	// ConfigMaps names them, each with its release.
	ConfigMaps []string
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("bundle %s (provider %s of type %s) has no ConfigMaps of release %s, only of other releases: ConfigMap %s",
		e.Bundle, e.Provider, e.Type, e.Release, strings.Join(e.ConfigMaps, ", "))
}

// Others returns an *OtherError for each bundle that has only ConfigMaps of other
// releases, sorted by the bundle's name.
func Others(configMaps []corev1.ConfigMap, release string) []*OtherError {
	parts, foreign := divide(configMaps, release)
	var others []*OtherError
	for _, bundle := range slices.Sorted(maps.Keys(foreign)) {
		if len(parts[bundle]) > 0 {
			continue
		}
		metadata := foreign[bundle][0].metadata()
		others = append(others, &OtherError{
			Bundle: bundle, Release: release, Provider: metadata.ProviderName, Type: metadata.ProviderType, ConfigMaps: releases(foreign[bundle]),
		})
	}
	return others
}

// releases returns the names of ConfigMaps with their releases.
func releases(parts []bundleSlice) (names []string) {
	for _, p := range parts {
		names = append(names, fmt.Sprintf("%s of release %s", p.name(), p.Annotations[ReleaseVersion]))
	}
	slices.Sort(names)
	return names
}

func result(bundle string, parts, foreign []bundleSlice) extractor.Result {
	r := extractor.Result{Image: imagesjson.Image{Name: bundle}}
	joined, errs := join(bundle, parts, foreign)
	if len(errs) > 0 {
		r.Err = errors.Join(errs...)
		return r
	}
	r.Bundles = []extractor.Bundle{joined}
	return r
}

// bundleSlice is one ConfigMap of a bundle.
type bundleSlice struct {
	*corev1.ConfigMap
	index, count int
	data         []byte
	compressed   bool
}

// invalid returns an error about the ConfigMap that is an extractor.ErrInvalid.
func (p *bundleSlice) invalid(format string, args ...any) error {
	return &Error{p.name(), &extractor.InvalidError{Err: fmt.Errorf(format, args...)}}
}

func (p *bundleSlice) name() string { return p.Namespace + "/" + p.Name }

// read parses the slice's position in the bundle and its data.
func (p *bundleSlice) read() (errs []error) {
	if p.Labels[BundleLabel] == "" {
		errs = append(errs, p.invalid("label %s is empty", BundleLabel))
	}
	if p.Annotations[ReleaseVersion] == "" {
		errs = append(errs, p.invalid("annotation %s is missing", ReleaseVersion))
	}
	if err := p.metadata().Validate(); err != nil {
		errs = append(errs, p.invalid("parsing the annotations: %w", err))
	}
	return slices.Concat(errs, p.readPlace(), p.readData())
}

func (p *bundleSlice) readPlace() (errs []error) {
	var err error
	if p.count, err = strconv.Atoi(p.Annotations[Slices]); err != nil || p.count < 1 || p.count > MaxSlices {
		return []error{p.invalid("invalid annotation %s %q: want a number from 1 to %d", Slices, p.Annotations[Slices], MaxSlices)}
	}
	if p.index, err = strconv.Atoi(p.Annotations[Slice]); err != nil || p.index < 0 || p.index >= p.count {
		errs = append(errs, p.invalid("invalid annotation %s %q: want a number from 0 to %d", Slice, p.Annotations[Slice], p.count-1))
	}
	return errs
}

func (p *bundleSlice) readData() []error {
	text, isText := p.Data[Manifests]
	packed, isPacked := p.BinaryData[CompressedManifests]
	switch {
	case isText && isPacked:
		return []error{p.invalid("both %s and %s are set: keep one", Manifests, CompressedManifests)}
	case isPacked:
		p.data, p.compressed = packed, true
	case isText:
		p.data = []byte(text)
	default:
		return []error{p.invalid("neither data[%s] nor binaryData[%s] is set", Manifests, CompressedManifests)}
	}
	return nil
}

func (p *bundleSlice) metadata() extractor.Metadata {
	return extractor.Metadata{
		ProviderName:    p.Annotations[ProviderName],
		ProviderType:    extractor.ProviderType(p.Annotations[ProviderType]),
		ProviderVersion: p.Annotations[ProviderVersion],
		OCPPlatform:     p.Annotations[OCPPlatform],
		ContentID:       digest.Digest(p.Annotations[ContentID]),
	}
}
