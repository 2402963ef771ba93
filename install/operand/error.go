// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/text"
)

// ImageError reports that an image of the release, or a bundle in transport
// ConfigMaps, cannot be read.
type ImageError struct {
	// Name is the key of the image in images.json, or the name of the bundle.
	Name string
	// Reference is the payload reference, by digest; empty for transport ConfigMaps.
	Reference string
	// Overridden is set if the image is from spec.imageOverrides.
	Overridden bool
	// Others are the keys of further images of the release that cannot be read for the same cause.
	Others []string
	// Err is the error of the extractor: an *extractor.Error, or several joined.
	Err error
}

func (e *ImageError) Error() string {
	switch {
	case e.Reference == "":
		return fmt.Sprintf("bundle %s of transport ConfigMaps is invalid: %v", e.Name, e.Err)
	case e.Overridden:
		return fmt.Sprintf("image %s (%s, from spec.imageOverrides): cannot read its contents: %s", e.Name, e.Reference, e.cause())
	case len(e.Others) > 0:
		return fmt.Sprintf("%d images (%s): cannot read their contents: %s", 1+len(e.Others), text.First(3, append([]string{e.Name}, e.Others...)), e.cause())
	default:
		return fmt.Sprintf("image %s (%s): cannot read its contents: %s", e.Name, e.Reference, e.cause())
	}
}

// cause returns the text of the error without the reference, because each *extractor.Error repeats it.
func (e *ImageError) cause() string {
	image := "image " + e.Reference
	return strings.NewReplacer(image+": ", "", image+", ", "").Replace(e.Err.Error())
}

func (e *ImageError) Unwrap() error { return e.Err }

// byCause returns one error for all images of the release with the same cause, such as an unreadable pull secret.
func byCause(failed []*ImageError) (errs []error) {
	first := map[string]*ImageError{}
	for _, err := range failed {
		known := first[err.cause()]
		switch {
		case err.Reference == "" || err.Overridden:
		case known != nil:
			known.Others = append(known.Others, err.Name)
			continue
		default:
			first[err.cause()] = err
		}
		errs = append(errs, err)
	}
	return errs
}

// MissingError reports that the release has no provider of a required type.
type MissingError struct {
	Type extractor.ProviderType
	// Platform is the platform without such a provider.
	Platform string
	// Have lists the providers of the type for other platforms.
	Have []string
}

func (e *MissingError) Error() string {
	message := fmt.Sprintf("no provider of type %s found for platform %q", e.Type, e.Platform)
	if len(e.Have) == 0 {
		return message
	}
	return message + "; found " + strings.Join(e.Have, ", ")
}

// DuplicateError reports a provider that two sources define.
type DuplicateError struct {
	Provider string
	Type     extractor.ProviderType
	// First and Second are the sources: an image, or ConfigMaps.
	First, Second string
}

func (e *DuplicateError) Error() string {
	provider := e.Provider
	if e.Type != "" {
		provider += fmt.Sprintf(" (%s)", e.Type)
	}
	return fmt.Sprintf("provider %s is defined by both %s and %s", provider, e.First, e.Second)
}

// RenderError reports a defect in the manifests of a bundle.
type RenderError struct {
	// Source is the image or the ConfigMaps of the bundle.
	Source string
	// Line in the manifests file, from 1; for an object, the first line of its
	// document. 0 if the error is about the whole file.
	Line int
	// Document is the number of the document in the manifests file, from 1.
	Document int
	// Object names the object, such as "Deployment openshift-cluster-api/capa-controller-manager"; empty if its document does not parse.
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

// SettingError reports a setting that cannot be applied. Err is a *field.Error about a field of the ClusterAPI object.
type SettingError struct{ Err error }

func (e *SettingError) Error() string { return e.Err.Error() }

func (e *SettingError) Unwrap() error { return e.Err }

func settingErrors(list field.ErrorList) (errs []error) {
	for _, err := range list {
		errs = append(errs, &SettingError{err})
	}
	return errs
}

// ofType describes a provider in messages. It may have no type.
func ofType(provider string, providerType extractor.ProviderType) string {
	if providerType == "" {
		return provider
	}
	return fmt.Sprintf("%s of type %s", provider, providerType)
}

// source names the image or the ConfigMaps of a bundle for messages.
func source(bundle extractor.Bundle) string {
	name := fmt.Sprintf("image %s (%s)", bundle.Origin.Name, bundle.Origin.Image)
	if bundle.Origin.Image == "" {
		name = "ConfigMaps " + strings.Join(bundle.Origin.ConfigMaps, ", ")
	}
	if bundle.Profile != "" {
		name += ", profile " + bundle.Profile
	}
	return name
}
