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
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
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

// MaxSlices is how many ConfigMaps one bundle may have: as many as a component
// of the ClusterAPI object can name.
const MaxSlices = 64

// Error is what is wrong with a ConfigMap.
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
// ConfigMaps without the label are passed over, and so are bundles of which there
// are only ConfigMaps of other releases: Others tells of those.
//
// What is wrong with a bundle is in its result, everything at once, each of type
// *Error. It is an extractor.ErrInvalid, except where slices are not there: they
// may come yet. The error of Bundles is that release is empty.
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

// divide puts together the ConfigMaps of each bundle, those of the release and
// those of other ones. One that does not say its release counts as of this one.
func divide(configMaps []corev1.ConfigMap, release string) (parts, foreign map[string][]part) {
	parts, foreign = map[string][]part{}, map[string][]part{}
	for i := range configMaps {
		p := part{ConfigMap: &configMaps[i]}
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

// OtherError says that all ConfigMaps of a bundle are of other releases. They may
// be left from a release that had the bundle there, or about to be replaced.
type OtherError struct {
	// Bundle is the name of the bundle, Release the release that it is not of.
	Bundle, Release string
	// Provider and Type are what the ConfigMaps say that they bring.
	Provider string
	Type     extractor.ProviderType
	// ConfigMaps names them, each with its release.
	ConfigMaps []string
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("bundle %s (provider %s of type %s) is there only for other releases than %s: ConfigMap %s",
		e.Bundle, e.Provider, e.Type, e.Release, strings.Join(e.ConfigMaps, ", "))
}

// Others returns an *OtherError for each bundle of which there are only
// ConfigMaps of other releases, in the order of the bundles' names.
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
func releases(parts []part) (names []string) {
	for _, p := range parts {
		names = append(names, fmt.Sprintf("%s of release %s", p.name(), p.Annotations[ReleaseVersion]))
	}
	slices.Sort(names)
	return names
}

func result(bundle string, parts, foreign []part) extractor.Result {
	r := extractor.Result{Image: imagesjson.Image{Name: bundle}}
	joined, errs := join(bundle, parts, foreign)
	if len(errs) > 0 {
		r.Err = errors.Join(errs...)
		return r
	}
	r.Bundles = []extractor.Bundle{joined}
	return r
}

// part is one ConfigMap of a bundle.
type part struct {
	*corev1.ConfigMap
	index, count int
	data         []byte
	compressed   bool
}

// invalid is an error about one ConfigMap that is wrong.
func (p *part) invalid(format string, args ...any) error {
	return &Error{p.name(), &extractor.InvalidError{Err: fmt.Errorf(format, args...)}}
}

func (p *part) name() string { return p.Namespace + "/" + p.Name }

// join makes a bundle of its parts, each step only if those before found nothing wrong.
func join(bundle string, parts, foreign []part) (extractor.Bundle, []error) {
	var errs []error
	for i := range parts {
		errs = append(errs, parts[i].read()...)
	}
	if len(errs) > 0 {
		return extractor.Bundle{}, errs
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.name(), b.name()))
	})
	if errs = append(agree(parts), complete(parts, foreign)...); len(errs) > 0 {
		return extractor.Bundle{}, errs
	}
	manifests, err := joinManifests(parts)
	if err != nil {
		return extractor.Bundle{}, []error{&Error{names(parts), &extractor.InvalidError{Err: err}}}
	}
	origin := extractor.Origin{Name: bundle}
	for _, p := range parts {
		origin.ConfigMaps = append(origin.ConfigMaps, p.Name)
	}
	return extractor.Bundle{Origin: origin, Metadata: parts[0].metadata(), Manifests: manifests}, nil
}

// read reads the part's place in the bundle and its data.
func (p *part) read() (errs []error) {
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

func (p *part) readPlace() (errs []error) {
	var err error
	if p.count, err = strconv.Atoi(p.Annotations[Slices]); err != nil || p.count < 1 || p.count > MaxSlices {
		return []error{p.invalid("annotation %s: %q is not a number from 1 to %d", Slices, p.Annotations[Slices], MaxSlices)}
	}
	if p.index, err = strconv.Atoi(p.Annotations[Slice]); err != nil || p.index < 0 || p.index >= p.count {
		errs = append(errs, p.invalid("annotation %s: %q is not a number from 0 to %d", Slice, p.Annotations[Slice], p.count-1))
	}
	return errs
}

func (p *part) readData() []error {
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

func (p *part) metadata() extractor.Metadata {
	return extractor.Metadata{
		ProviderName:    p.Annotations[ProviderName],
		ProviderType:    extractor.ProviderType(p.Annotations[ProviderType]),
		ProviderVersion: p.Annotations[ProviderVersion],
		OCPPlatform:     p.Annotations[OCPPlatform],
		ContentID:       digest.Digest(p.Annotations[ContentID]),
	}
}

// agree says where parts differ in what they say about the bundle.
func agree(parts []part) (errs []error) {
	first := parts[0]
	for _, p := range parts[1:] {
		for _, key := range []string{ProviderName, ProviderType, ProviderVersion, OCPPlatform, ContentID, Slices} {
			if p.Annotations[key] != first.Annotations[key] {
				errs = append(errs, p.invalid("annotation %s is %q, but %q in %s", key, p.Annotations[key], first.Annotations[key], first.name()))
			}
		}
		if p.compressed != first.compressed {
			errs = append(errs, p.invalid("one of it and %s is compressed, and one is not", first.name()))
		}
	}
	return errs
}

// complete says which slices come twice or not at all, and which ConfigMaps of the
// bundle do not count because they are of other releases.
func complete(parts, foreign []part) (errs []error) {
	there := map[int]part{}
	for _, p := range parts {
		if other, twice := there[p.index]; twice {
			errs = append(errs, p.invalid("it is slice %d, and so is %s", p.index, other.name()))
			continue
		}
		there[p.index] = p
	}
	var missing []string
	for index := range parts[0].count {
		if _, ok := there[index]; !ok {
			missing = append(missing, strconv.Itoa(index))
		}
	}
	if len(missing) > 0 {
		err := fmt.Errorf("of %d slices, these are not there: %s", parts[0].count, strings.Join(missing, ", "))
		if len(foreign) > 0 {
			err = fmt.Errorf("%w; not counted: %s", err, strings.Join(releases(foreign), ", "))
		}
		errs = append(errs, &Error{names(parts), err})
	}
	return errs
}

func names(parts []part) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name())
	}
	return strings.Join(all, ", ")
}

// joinManifests returns the manifests of complete parts, verified. Compressed
// parts may be one frame cut into pieces, or a frame each.
func joinManifests(parts []part) ([]byte, error) {
	var joined []byte
	for _, p := range parts {
		joined = append(joined, p.data...)
	}
	manifests := joined
	if parts[0].compressed {
		var err error
		if manifests, err = decompress(joined); err != nil {
			return nil, fmt.Errorf("decompressing %s: %w", CompressedManifests, err)
		}
	}
	switch want, got := parts[0].metadata().ContentID, digest.FromBytes(manifests); {
	case len(manifests) > extractor.MaxManifests:
		return nil, fmt.Errorf("the manifests are longer than %d bytes", extractor.MaxManifests)
	case len(manifests) == 0:
		return nil, errors.New("the manifests are empty")
	case got != want:
		return nil, fmt.Errorf("the digest of the manifests is %s, but annotation %s is %q", got, ContentID, want)
	}
	return manifests, nil
}

// decompress returns one byte more than MaxManifests of data that has more.
func decompress(data []byte) ([]byte, error) {
	decoder, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(extractor.MaxManifests))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return io.ReadAll(io.LimitReader(decoder, extractor.MaxManifests+1))
}
