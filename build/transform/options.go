// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// Options configure the transforms.
type Options struct {
	// ImageName is the placeholder for the provider's own image; required if there are containers.
	ImageName string
	// Images are additional images to replace: the key by the value, a digest reference or ImageName.
	Images map[string]string
	// Namespace is the namespace of the provider; empty means the one of the profile.
	Namespace string
	// Profile is the kind of cluster that the bundle is for; the zero value is OpenShift.
	Profile extractor.ClusterProfile
	// KeepNamespaces leaves the objects in the provider's own namespaces; only for the profile Kubernetes.
	KeepNamespaces bool
	// ProtectClusters are the singular names of the resources, such as "awscluster", whose
	// object of the cluster itself is protected from deletion; empty means all InfraClusters.
	ProtectClusters []string
	// OnlyTransforms are the names of the applied transforms; empty means all.
	OnlyTransforms []string
	// SkipTransforms are the names of transforms that are not applied.
	SkipTransforms []string
}

// OptionsError is the error for options that contradict the format of a bundle, or that
// lack a value that the objects require.
type OptionsError struct{ Err error }

func (e *OptionsError) Error() string { return e.Err.Error() }
func (e *OptionsError) Unwrap() error { return e.Err }

// Substitute reports whether a container of the bundle may have the image.
func (o Options) Substitute(image string) bool {
	_, err := name.NewDigest(image)
	return err == nil || (image != "" && image == o.ImageName)
}

// applies reports whether a transform is enabled.
func (o Options) applies(name string) bool {
	return (len(o.OnlyTransforms) == 0 || slices.Contains(o.OnlyTransforms, name)) && !slices.Contains(o.SkipTransforms, name)
}

// Check returns an error for each unknown transform, and for each that is both selected and skipped.
func (o Options) Check() []error {
	var known []string
	for _, t := range For(o.Profile) {
		known = append(known, t.Name)
	}
	var errs []error
	if o.KeepNamespaces && o.Profile != extractor.Kubernetes {
		errs = append(errs, errors.New("namespaces can be kept in profile kubernetes only: in OpenShift, all providers are in "+v1alpha1.OpenShiftNamespaces.Operand))
	}
	for _, name := range append(slices.Clone(o.OnlyTransforms), o.SkipTransforms...) {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("unknown transform %q: want one of %s, for profile %s", name, strings.Join(known, ", "), &o.Profile))
		}
	}
	for _, name := range o.OnlyTransforms {
		if slices.Contains(o.SkipTransforms, name) {
			errs = append(errs, fmt.Errorf("transform %s is both selected and skipped", name))
		}
	}
	return errs
}
