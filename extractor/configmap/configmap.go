// SPDX-License-Identifier: Apache-2.0

// Package configmap reads bundles from transport ConfigMaps, in which the
// cluster version operator brings the manifests of providers whose images do
// not hold them yet. A bundle that is too long for one ConfigMap is cut into
// slices. One looks like this, in the namespace of the operands:
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
// The images in the manifests are those of the release already.
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

// The names in a transport ConfigMap: BundleLabel is a label, whose value is the
// name of the bundle; the others are keys of annotations and of the data.
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

// MaxSlices is the largest number of ConfigMaps of a bundle: the limit of a component
// of the ClusterAPI object.
const MaxSlices = 64

// Error is an error of a ConfigMap.
type Error struct {
	// ConfigMap is <namespace>/<name>; several are separated by a comma and a space.
	ConfigMap string
	Err       error
}

// Error names the ConfigMap and the cause.
func (e *Error) Error() string { return "ConfigMap " + e.ConfigMap + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Bundles returns one result for each bundle that a release's ConfigMaps are of,
// in the order of the bundles' names. Its image has a name only, the bundle's.
// ConfigMaps without the label are ignored, and so are bundles with
// ConfigMaps of other releases only: Others returns those.
//
// All errors of a bundle are in its result, each of type
// *Error. They are an extractor.ErrInvalid, except missing slices, which
// may be created later. The error of Bundles is that release is empty.
func Bundles(configMaps []corev1.ConfigMap, release string) ([]extractor.Result, error) {
	if release == "" {
		return nil, errors.New("the release version is not known: transport ConfigMaps cannot be told from those of other releases")
	}
	parts, foreign := divide(configMaps, release)
	var results []extractor.Result
	for _, bundle := range slices.Sorted(maps.Keys(parts)) {
		results = append(results, result(bundle, parts[bundle], foreign[bundle]))
	}
	return results, nil
}

// divide groups the ConfigMaps by bundle: those of the release, and
// those of other releases. A ConfigMap without release counts as one of this release.
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

// OtherError reports that all ConfigMaps of a bundle are of other releases. They are
// left from an older release, or about to be replaced.
type OtherError struct {
	// Bundle is the name of the bundle, Release the release that it is not of.
	Bundle, Release string
	// Provider and Type are those of the ConfigMaps.
	Provider string
	Type     extractor.ProviderType
	// ConfigMaps names them, each with its release.
	ConfigMaps []string
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("bundle %s (provider %s of type %s) is there only for other releases than %s: ConfigMap %s",
		e.Bundle, e.Provider, e.Type, e.Release, strings.Join(e.ConfigMaps, ", "))
}

// Others returns an *OtherError for each bundle with
// ConfigMaps of other releases only, in the order of the bundles' names.
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

// releases names ConfigMaps with their releases.
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

// bundleSlice is one of the ConfigMaps that ship a bundle together.
type bundleSlice struct {
	*corev1.ConfigMap
	index, count int
	data         []byte
	compressed   bool
}

// invalid is an error of one invalid ConfigMap.
func (p *bundleSlice) invalid(format string, args ...any) error {
	return &Error{p.name(), &extractor.InvalidError{Err: fmt.Errorf(format, args...)}}
}

func (p *bundleSlice) name() string { return p.Namespace + "/" + p.Name }

// read reads the place of the slice in the bundle, and its data.
func (p *bundleSlice) read() (errs []error) {
	if p.Labels[BundleLabel] == "" {
		errs = append(errs, p.invalid("label %s has no value", BundleLabel))
	}
	if p.Annotations[ReleaseVersion] == "" {
		errs = append(errs, p.invalid("annotation %s is missing", ReleaseVersion))
	}
	if err := p.metadata().Validate(); err != nil {
		errs = append(errs, p.invalid("reading the annotations: %w", err))
	}
	return slices.Concat(errs, p.readPlace(), p.readData())
}

func (p *bundleSlice) readPlace() (errs []error) {
	var err error
	if p.count, err = strconv.Atoi(p.Annotations[Slices]); err != nil || p.count < 1 || p.count > MaxSlices {
		return []error{p.invalid("annotation %s: %q is not a number from 1 to %d", Slices, p.Annotations[Slices], MaxSlices)}
	}
	if p.index, err = strconv.Atoi(p.Annotations[Slice]); err != nil || p.index < 0 || p.index >= p.count {
		errs = append(errs, p.invalid("annotation %s: %q is not a number from 0 to %d", Slice, p.Annotations[Slice], p.count-1))
	}
	return errs
}

func (p *bundleSlice) readData() []error {
	text, isText := p.Data[Manifests]
	packed, isPacked := p.BinaryData[CompressedManifests]
	switch {
	case isText && isPacked:
		return []error{p.invalid("it has both %s and %s: keep one", Manifests, CompressedManifests)}
	case isPacked:
		p.data, p.compressed = packed, true
	case isText:
		p.data = []byte(text)
	default:
		return []error{p.invalid("it has neither %s in data nor %s in binaryData", Manifests, CompressedManifests)}
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
