// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
)

// ImageError says that an image of the release, or a bundle in transport
// ConfigMaps, could not be read, so that it is not known what it holds.
type ImageError struct {
	// Name is the image's key in images.json, or the bundle's name.
	Name string
	// Reference is the payload reference, by digest; empty if the bundle is one of transport ConfigMaps.
	Reference string
	// Overridden says that the image is that of spec.imageOverrides.
	Overridden bool
	// Err is what the extractor reports; it is, or joins, errors of type *extractor.Error.
	Err error
}

func (e *ImageError) Error() string {
	switch {
	case e.Reference == "":
		return fmt.Sprintf("bundle %s of transport ConfigMaps cannot be used: %v", e.Name, e.Err)
	case e.Overridden:
		return fmt.Sprintf("image %s (%s, from spec.imageOverrides): what it holds is not known: %v", e.Name, e.Reference, e.Err)
	default:
		return fmt.Sprintf("image %s (%s): what it holds is not known: %v", e.Name, e.Reference, e.Err)
	}
}

func (e *ImageError) Unwrap() error { return e.Err }

// MissingError says that the release has no provider of a type that must be there.
type MissingError struct {
	Type extractor.ProviderType
	// Platform is the platform of the cluster.
	Platform string
	// Have describes the providers of that type for other platforms.
	Have []string
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("no image holds a provider of type %s for platform %q", e.Type, e.Platform)
	if len(e.Have) == 0 {
		return text + "; add its image to images.json or to spec.imageOverrides"
	}
	return text + "; there is " + strings.Join(e.Have, ", ")
}

// DuplicateError says that a provider comes twice.
type DuplicateError struct {
	Provider string
	Type     extractor.ProviderType
	// First and Second say where it comes from: an image, or ConfigMaps.
	First, Second string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("provider %s of type %s comes twice, from %s and from %s; remove one of them", e.Provider, e.Type, e.First, e.Second)
}

// RenderError says what is wrong with a bundle's manifests.
type RenderError struct {
	// Source is where the bundle comes from: an image, or ConfigMaps.
	Source string
	// Line in the manifests file, from 1; for an object, the line on which its
	// document begins. 0 if the error is about the whole file.
	Line int
	// Document is the number of the document in the manifests file, from 1.
	Document int
	// Object names the object, such as "Deployment openshift-cluster-api/capa-controller-manager"; empty if it has no name yet.
	Object string
	Err    error
}

func (e *RenderError) Error() string {
	where := e.Source
	if e.Line > 0 {
		where += fmt.Sprintf(", line %d of the manifests (document %d", e.Line, e.Document)
		if e.Object != "" {
			where += ", " + e.Object
		}
		where += ")"
	}
	return where + ": " + e.Err.Error()
}

func (e *RenderError) Unwrap() error { return e.Err }

// source says where a bundle comes from, for people.
func source(bundle extractor.Bundle) string {
	text := fmt.Sprintf("image %s (%s)", bundle.Origin.Name, bundle.Origin.Image)
	if bundle.Origin.Image == "" {
		text = "ConfigMaps " + strings.Join(bundle.Origin.ConfigMaps, ", ")
	}
	if bundle.Profile != "" {
		text += ", profile " + bundle.Profile
	}
	return text
}
