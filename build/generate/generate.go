// SPDX-License-Identifier: Apache-2.0

// Package generate builds bundles from kustomize directories: it renders the
// directory, applies the transforms, checks the result and summarizes the changes.
// Preview builds a bundle for inspection before all options are known. The same
// directory and options give the same bytes on every machine.
//
// # Order of a generated manifests file
//
// The objects are sorted in the apply order of package object (namespaces, CRDs,
// service accounts, roles, role bindings, configuration, services, admission
// policies, their bindings, other kinds, workloads, webhooks), then by API group,
// kind, namespace and name. Map keys are sorted. The order has no effect in the
// cluster; it is stable, so that the change of an object is a single hunk in a
// diff.
package generate

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

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Bundle renders a kustomize directory, applies the transforms, and returns the
// bundle and a summary of the changes. Variables such as ${VAR:=x} are kept for the
// cluster. The error is a *transform.OptionsError for wrong options, and joins all findings.
func Bundle(o Options) (extractor.Bundle, Summary, error) {
	o = o.normalized()
	if err := o.Check(); err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	bundle, summary, err := generate(o)
	if err != nil {
		return extractor.Bundle{}, Summary{}, fmt.Errorf("generating from %s: %w", o.Dir, err)
	}
	return bundle, summary, nil
}

func generate(o Options) (extractor.Bundle, Summary, error) {
	objects, err := kustomize.Render(o.Dir)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	summary := Summary{Read: len(objects)}
	objects, summary.Results, err = transform.Apply(transform.For(o.Profile), objects, o.Options)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	if len(objects) == 0 {
		return extractor.Bundle{}, Summary{}, errors.New("no objects to install")
	}
	if err := errors.Join(append(object.CheckUnique(objects), transform.CheckImages(objects, o.Options)...)...); err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	slices.SortStableFunc(objects, object.Compare)
	summary.Written = len(objects)
	summary.Missing = slices.Concat(transform.MissingNamespaces(objects, o.Profile), transform.MissingSecrets(objects, o.Profile, summary.Results))
	manifests, err := kustomize.Print(objects)
	if err != nil {
		return extractor.Bundle{}, Summary{}, err
	}
	return extractor.Bundle{Metadata: o.Metadata(manifests), Manifests: manifests}, summary, nil
}

// Summary counts the objects and lists the changes of Bundle.
type Summary struct {
	// Read and Written count objects.
	Read    int `json:"read"`
	Written int `json:"written"`
	// Results has an entry for each transform, in order.
	Results []transform.Result `json:"results"`
	// Missing are sentences about objects that the bundle needs but does not contain,
	// such as the credentials that a pod mounts.
	Missing []string `json:"missing,omitempty"`
}

// Options are the inputs of a bundle.
type Options struct {
	// Dir is the kustomize directory, or a YAML file with the objects.
	Dir string
	// ProviderName is a DNS label of at most 58 characters that starts with a
	// letter, such as "cluster-api-provider-aws". It becomes the name of a phase
	// and the value of a label.
	ProviderName string
	// ProviderType is the type of the provider, such as infrastructure.
	ProviderType extractor.ProviderType
	// ProviderVersion is a semantic version with a leading v.
	ProviderVersion string
	// OCPPlatform is the OpenShift platform type of the provider, such as "AWS";
	// empty means every platform.
	OCPPlatform string
	// InstallOrder orders providers of the same type; 0 means none. Not every
	// layout can store it.
	InstallOrder int
	// Options are the options of the transforms.
	transform.Options
}

// normalized sets defaults.
func (o Options) normalized() Options {
	o.Namespace = cmp.Or(o.Namespace, o.Profile.Namespaces().Operand)
	return o
}

// Metadata returns the metadata of a bundle with the manifests.
func (o Options) Metadata(manifests []byte) extractor.Metadata {
	return extractor.Metadata{
		ProviderName:    o.ProviderName,
		ProviderType:    o.ProviderType,
		ProviderVersion: o.ProviderVersion,
		OCPPlatform:     o.OCPPlatform,
		ContentID:       digest.FromBytes(manifests),
		ImageName:       o.ImageName,
		InstallOrder:    o.InstallOrder,
		ClusterProfile:  o.Profile,
	}
}

var providerNamePattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,56}[a-z0-9])?$`)

// Check returns an *OptionsError that joins all errors in the options, after
// missing ones got their defaults.
func (o Options) Check() error {
	o = o.normalized()
	var errs []error
	if !providerNamePattern.MatchString(o.ProviderName) {
		errs = append(errs, fmt.Errorf("invalid provider name %q: want a DNS label of at most 58 characters that starts with a letter, such as cluster-api-provider-aws", o.ProviderName))
	}
	if !slices.Contains(extractor.ProviderTypes(), o.ProviderType) {
		errs = append(errs, fmt.Errorf("invalid provider type %q: want one of %s", o.ProviderType, text.Join(extractor.ProviderTypes())))
	}
	if !contract.IsProviderVersion(o.ProviderVersion) {
		errs = append(errs, fmt.Errorf("invalid provider version %q: want a semantic version with a leading v, such as v2.10.0", o.ProviderVersion))
	}
	errs = append(errs, o.checkPlatform())
	if o.ImageName != "" {
		if _, err := name.ParseReference(o.ImageName); err != nil {
			errs = append(errs, fmt.Errorf("invalid image name %q: %w", o.ImageName, err))
		}
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, fmt.Errorf("invalid namespace %q: %s", o.Namespace, problem))
	}
	for _, old := range slices.Sorted(maps.Keys(o.Images)) {
		if !o.Substitute(o.Images[old]) {
			errs = append(errs, fmt.Errorf("invalid replacement %[2]q for image %[1]s: want a reference by digest (<repository>@sha256:<digest>) or the image name %[3]q", old, o.Images[old], o.ImageName))
		}
	}
	if err := errors.Join(append(errs, o.Options.Check()...)...); err != nil {
		return &transform.OptionsError{Err: err}
	}
	return nil
}

// checkPlatform accepts the platforms of OpenShift, and with the Kubernetes profile
// any other name.
func (o Options) checkPlatform() error {
	isNamed := func(platform configv1.PlatformType) bool { return strings.EqualFold(string(platform), o.OCPPlatform) }
	isOther := o.Profile == extractor.Kubernetes && !slices.ContainsFunc(contract.Platforms, isNamed)
	switch {
	case o.OCPPlatform == "", slices.Contains(contract.Platforms, configv1.PlatformType(o.OCPPlatform)):
		return nil
	case !isOther:
		return fmt.Errorf("invalid OpenShift platform %q: want one of %s (case-sensitive)", o.OCPPlatform, text.Join(contract.Platforms))
	case !extractor.IsPlatformName(o.OCPPlatform):
		return fmt.Errorf("invalid platform %q: want a letter, followed by letters, digits and dashes", o.OCPPlatform)
	}
	return nil
}
