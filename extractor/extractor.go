// SPDX-License-Identifier: Apache-2.0

// Package extractor defines the bundle (the manifests of one provider with their metadata) and
// its file formats. A Fetcher returns the bundles of an image. The subpackages read bundles
// from registries, from a disk cache and from ConfigMaps.
package extractor

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// ProviderType is the type of a Cluster API provider.
type ProviderType string

// The provider types, in the order of installation.
const (
	Core             ProviderType = "core"
	Bootstrap        ProviderType = "bootstrap"
	ControlPlane     ProviderType = "controlplane"
	IPAM             ProviderType = "ipam"
	Infrastructure   ProviderType = "infrastructure"
	RuntimeExtension ProviderType = "runtimeextension"
	Addon            ProviderType = "addon"
)

// ProviderTypes returns all provider types in install order.
func ProviderTypes() []ProviderType {
	return []ProviderType{Core, Bootstrap, ControlPlane, IPAM, Infrastructure, RuntimeExtension, Addon}
}

// Metadata describes a bundle. Its JSON form is part of the output of capi-manifests; metadata.json omits empty values.
type Metadata struct {
	// ProviderName is the provider's name, such as "cluster-api-provider-aws".
	ProviderName string `json:"providerName"`
	// ProviderType is the type of the provider; empty for a bundle in a profile that is not a provider.
	ProviderType ProviderType `json:"providerType"`
	// ProviderVersion is the provider's own version, such as "v2.10.0".
	ProviderVersion string `json:"providerVersion"`
	// OCPPlatform is the OpenShift platform type of the provider, such as "AWS"; empty means every platform.
	OCPPlatform string `json:"ocpPlatform"`
	// ContentID is the SHA-256 of Manifests.
	ContentID digest.Digest `json:"contentID"`
	// ImageName is the placeholder for the provider's image in the manifests; empty if they have none.
	ImageName string `json:"imageName"`
	// InstallOrder orders bundles of the same type; lower comes first. 0 means not
	// set.
	InstallOrder int `json:"installOrder,omitempty"`
	// ClusterProfile is the kind of cluster that the bundle is built for. The installer ignores
	// it.
	ClusterProfile ClusterProfile `json:"clusterProfile,omitempty"`
}

// Origin is the source of a bundle: an image or ConfigMaps, never both.
type Origin struct {
	// Name is the image's key in images.json, or the name of the bundle in
	// transport ConfigMaps.
	Name string
	// Image is the payload reference, by digest.
	Image string
	// Overridden is true if the image is from spec.imageOverrides, not from the release.
	Overridden bool
	// ConfigMaps are the names of the transport ConfigMaps, in the order of their slices.
	ConfigMaps []string
}

// Bundle holds the verified manifests of one provider.
type Bundle struct {
	Origin   Origin
	Metadata Metadata
	// Profile distinguishes the bundles of an image with several; empty if the
	// layout has only one.
	Profile string
	// Attributes are additional attributes of metadata.yaml. The installer ignores them.
	Attributes map[string]any
	// Manifests is the unmodified content of the manifests file (YAML documents). It must not
	// be modified.
	Manifests []byte
}

// Fetcher reads the bundles of an image. Fetchers wrap each other:
// Cached(Limited(Mirrored(registry))).
type Fetcher interface {
	// Fetch returns the bundles of an image by its reference with a digest, with Origin.Image set to reference.
	// It returns no bundles and no error if the image has no bundles. Errors are, or join, errors of type *Error.
	// ErrInvalid distinguishes an invalid bundle from retryable errors.
	Fetch(ctx context.Context, reference string) ([]Bundle, error)
}

var platformName = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

// IsPlatformName reports whether a text can name a platform of a cluster outside
// OpenShift: a letter, followed by letters, digits and dashes.
func IsPlatformName(text string) bool { return platformName.MatchString(text) }

// ClusterProfile is the kind of cluster that a bundle is built for. It
// implements pflag.Value.
type ClusterProfile string

// The cluster profiles.
const (
	// OpenShift is the zero value. Bundles depend on OpenShift's service-ca, namespaces and security context
	// constraints.
	OpenShift ClusterProfile = ""
	// Kubernetes is any cluster. Bundles depend on the installer for
	// certificates.
	Kubernetes ClusterProfile = "kubernetes"
)

const nameOfOpenShift = "openshift"

// ClusterProfileNames returns the names of the profiles.
func ClusterProfileNames() []string { return []string{nameOfOpenShift, string(Kubernetes)} }

// String returns the name of the profile.
func (p *ClusterProfile) String() string { return cmp.Or(string(*p), nameOfOpenShift) }

// Set implements pflag.Value.
func (p *ClusterProfile) Set(name string) error {
	if !slices.Contains(ClusterProfileNames(), name) {
		return fmt.Errorf("must be one of %s", strings.Join(ClusterProfileNames(), ", "))
	}
	if *p = ClusterProfile(name); name == nameOfOpenShift {
		*p = OpenShift
	}
	return nil
}

// Namespaces returns the default namespaces of an installation in such a cluster.
func (p ClusterProfile) Namespaces() v1alpha1.Namespaces {
	if p == Kubernetes {
		return v1alpha1.KubernetesNamespaces
	}
	return v1alpha1.OpenShiftNamespaces
}

// Type implements pflag.Value.
func (p *ClusterProfile) Type() string { return "profile" }
