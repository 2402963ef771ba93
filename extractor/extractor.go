// SPDX-License-Identifier: Apache-2.0

// Package extractor is the vocabulary of what providers ship: a Bundle is the
// manifests of one provider with their metadata, and a Fetcher gets the bundles
// of an image. The packages below it get bundles from registries, from the disk
// and from ConfigMaps; everything after them sees only bundles.
package extractor

import (
	"context"

	"github.com/opencontainers/go-digest"
)

// ProviderType is what a provider is for, in Cluster API's words.
type ProviderType string

// The provider types, in the order in which providers are installed.
const (
	Core             ProviderType = "core"
	Bootstrap        ProviderType = "bootstrap"
	ControlPlane     ProviderType = "controlplane"
	IPAM             ProviderType = "ipam"
	Infrastructure   ProviderType = "infrastructure"
	RuntimeExtension ProviderType = "runtimeextension"
	Addon            ProviderType = "addon"
)

// ProviderTypes are all provider types, in the order in which providers are installed.
func ProviderTypes() []ProviderType {
	return []ProviderType{Core, Bootstrap, ControlPlane, IPAM, Infrastructure, RuntimeExtension, Addon}
}

// Metadata describes a bundle.
type Metadata struct {
	// ProviderName is the provider's name, such as "cluster-api-provider-aws".
	ProviderName string
	// ProviderType is what the provider is for.
	ProviderType ProviderType
	// ProviderVersion is the provider's own version, such as "v2.10.0".
	ProviderVersion string
	// OCPPlatform is the OpenShift platform type that the provider is for, such as "AWS"; empty means every platform.
	OCPPlatform string
	// ContentID is the SHA-256 of Manifests.
	ContentID digest.Digest
	// ImageName is the placeholder by which the manifests name the provider's own image; empty if they name none.
	ImageName string
	// InstallOrder orders bundles of one type; lower comes first. 0 means that none was given.
	InstallOrder int
}

// Origin says where a bundle comes from: an image or ConfigMaps, never both.
type Origin struct {
	// Name is the image's key in images.json, or the transport bundle's name.
	Name string
	// Image is the payload reference, by digest.
	Image string
	// Overridden says that the image is that of spec.imageOverrides and not the release's.
	Overridden bool
	// ConfigMaps are the names of the transport ConfigMaps, in the order of their slices.
	ConfigMaps []string
}

// Bundle is the manifests of one provider as it ships them, verified.
type Bundle struct {
	Origin   Origin
	Metadata Metadata
	// Profile names the bundle among several in one image; empty where there is one.
	Profile string
	// Manifests is the manifests file: YAML documents, byte for byte. Nobody changes it.
	Manifests []byte
}

// Fetcher gets the bundles of an image. Fetchers wrap each other:
// Cached(Limited(Mirrored(registry))).
type Fetcher interface {
	// Fetch returns the bundles that the image holds, with Origin.Image set to
	// reference; none, and no error, if it is proven that it holds none.
	// reference is by digest. Errors are, or join,
	// errors of type *Error; ErrInvalid tells a wrong bundle from a failed transport.
	Fetch(ctx context.Context, reference string) ([]Bundle, error)
}
