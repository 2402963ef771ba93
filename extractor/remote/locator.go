// SPDX-License-Identifier: Apache-2.0

package remote

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// The locator of an image names the layer of its bundle in annotations of the manifest or, for Docker images, in labels
// of the config. Readers of previous releases use it to stop in the middle of a layer. Registry ignores it: its result
// must not depend on how far a layer is read.
const (
	// AnnotationLayer is the digest of the layer with the bundle. Lower layers
	// are not part of the bundle.
	AnnotationLayer = "capi-operator.openshift.io/manifests-layer"
	// AnnotationListing is the digest of metadata.json. That file contains the
	// digest of the manifests.
	AnnotationListing = "capi-operator.openshift.io/manifests-listing"
)

// LocatorAnnotations returns the locator of an image with files in layer. The layout of profiles has no listing: its values are
// empty, to disable the locator of a base image.
func LocatorAnnotations(layer v1.Hash, files extractor.Files) map[string]string {
	if files.Listing() == "" {
		return map[string]string{AnnotationLayer: "", AnnotationListing: ""}
	}
	return map[string]string{AnnotationLayer: layer.String(), AnnotationListing: files.Listing().String()}
}
