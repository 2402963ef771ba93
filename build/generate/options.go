// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// GenerateOptions say what Generate makes a bundle of.
type GenerateOptions struct {
	// Dir is the kustomize directory.
	Dir string
	// ProviderName, such as "cluster-api-provider-aws". It becomes the name of a
	// phase and of a label's value: at most 58 characters of a DNS label that starts with a letter.
	ProviderName string
	// ProviderType is what the provider is for.
	ProviderType extractor.ProviderType
	// ProviderVersion is a semantic version with a leading v.
	ProviderVersion string
	// OCPPlatform is the OpenShift platform type that the provider is for, such as
	// "AWS"; empty means every platform.
	OCPPlatform string
	// ImageName is the placeholder for the provider's own image. It is needed if anything runs.
	ImageName string
	// Images are further images to replace: the value, by digest or ImageName, takes the place of the key.
	Images map[string]string
	// Namespace is where the provider is installed; empty means openshift-cluster-api.
	Namespace string
	// InstallOrder orders providers of one type; 0 gives none. Not every layout can say it.
	InstallOrder int
	// ProtectClusters are the singular names of the resources, such as "awscluster", of
	// which the cluster's own object is protected from being deleted; empty means those of all InfraClusters.
	ProtectClusters []string
	// OnlyTransforms names the transforms that are applied; empty means all of them.
	OnlyTransforms []string
	// SkipTransforms names the transforms that are not applied.
	SkipTransforms []string
}

// OptionsError says that options contradict the format of a bundle, or, in a *GenerateError, that they
// do not say what the objects need to have said.
type OptionsError struct{ Err error }

func (e *OptionsError) Error() string { return e.Err.Error() }
func (e *OptionsError) Unwrap() error { return e.Err }

// GenerateError says that a directory does not make a valid bundle.
type GenerateError struct {
	Dir string
	Err error
}

func (e *GenerateError) Error() string { return fmt.Sprintf("generating from %s: %v", e.Dir, e.Err) }
func (e *GenerateError) Unwrap() error { return e.Err }

// Generate renders a kustomize directory, applies the transforms, and returns the
// bundle and what was changed. Variables such as ${VAR:=x} are kept for the
// cluster. Errors are of type *OptionsError or *GenerateError and name everything
// that is wrong.
func Generate(o GenerateOptions) (extractor.Bundle, Summary, error) {
	o = o.normalized()
	if err := o.check(); err != nil {
		return extractor.Bundle{}, Summary{}, &OptionsError{err}
	}
	bundle, summary, err := generate(o)
	if err != nil {
		return extractor.Bundle{}, Summary{}, &GenerateError{o.Dir, err}
	}
	return bundle, summary, nil
}

// normalized puts in defaults.
func (o GenerateOptions) normalized() GenerateOptions {
	o.Namespace = cmp.Or(o.Namespace, v1alpha1.OperandNamespace)
	return o
}

func generate(o GenerateOptions) (extractor.Bundle, Summary, error) {
	objects, quoted, err := renderKustomize(o.Dir)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	summary := Summary{Read: len(objects)}
	objects, summary.Results, err = apply(Transforms(), objects, o)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	if len(objects) == 0 {
		return extractor.Bundle{}, Summary{}, errors.New("nothing is left to install")
	}
	if err := errors.Join(append(checkUnique(objects), checkImages(objects, o)...)...); err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	sortObjects(objects)
	summary.Written = len(objects)
	summary.Missing = missingSecrets(objects)
	manifests, err := encode(objects, quoted)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	return extractor.Bundle{Metadata: o.metadata(manifests), Manifests: manifests}, summary, nil
}

func (o GenerateOptions) metadata(manifests []byte) extractor.Metadata {
	return extractor.Metadata{
		ProviderName:    o.ProviderName,
		ProviderType:    o.ProviderType,
		ProviderVersion: o.ProviderVersion,
		OCPPlatform:     o.OCPPlatform,
		ContentID:       digest.FromBytes(manifests),
		ImageName:       o.ImageName,
		InstallOrder:    o.InstallOrder,
	}
}

var (
	providerNamePattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,56}[a-z0-9])?$`)
	// From https://semver.org, with a leading v.
	versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// Platforms returns the OpenShift platform types, as the Infrastructure object of
// a cluster names them.
func Platforms() []configv1.PlatformType { return slices.Clone(platforms) }

var platforms = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.GCPPlatformType,
	configv1.LibvirtPlatformType, configv1.OpenStackPlatformType, configv1.NonePlatformType, configv1.VSpherePlatformType,
	configv1.OvirtPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.EquinixMetalPlatformType,
	configv1.PowerVSPlatformType, configv1.AlibabaCloudPlatformType, configv1.NutanixPlatformType, configv1.ExternalPlatformType,
}

func (o GenerateOptions) check() error {
	var errs []error
	if !providerNamePattern.MatchString(o.ProviderName) {
		errs = append(errs, fmt.Errorf("provider name %q is not a DNS label of at most 58 characters that starts with a letter, such as cluster-api-provider-aws", o.ProviderName))
	}
	if !slices.Contains(extractor.ProviderTypes(), o.ProviderType) {
		errs = append(errs, fmt.Errorf("provider type %q is none of %s", o.ProviderType, join(extractor.ProviderTypes())))
	}
	if !versionPattern.MatchString(o.ProviderVersion) {
		errs = append(errs, fmt.Errorf("provider version %q is not a semantic version with a leading v, such as v2.10.0", o.ProviderVersion))
	}
	if o.OCPPlatform != "" && !slices.Contains(platforms, configv1.PlatformType(o.OCPPlatform)) {
		errs = append(errs, fmt.Errorf("OpenShift platform %q is none of %s (case matters)", o.OCPPlatform, join(platforms)))
	}
	if o.ImageName != "" {
		if _, err := name.ParseReference(o.ImageName); err != nil {
			errs = append(errs, fmt.Errorf("image name %q is not an image reference: %w", o.ImageName, err))
		}
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, fmt.Errorf("namespace %q: %s", o.Namespace, problem))
	}
	for _, old := range sortedKeys(o.Images) {
		if !o.substitute(o.Images[old]) {
			errs = append(errs, fmt.Errorf("image %s: its replacement %q is neither by digest (<repository>@sha256:<digest>) nor the image name %q", old, o.Images[old], o.ImageName))
		}
	}
	return errors.Join(append(errs, o.checkTransforms()...)...)
}

// substitute says whether a container of the bundle may have an image.
func (o GenerateOptions) substitute(image string) bool {
	_, err := name.NewDigest(image)
	return err == nil || (image != "" && image == o.ImageName)
}

func join[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
