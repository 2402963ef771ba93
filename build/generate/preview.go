// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Preview returns the bundle that Bundle would build, for inspection: missing options are
// derived from the objects if possible, and images need no digest. The name and the type
// are those of the provider label, the version is v0.0.0, and the image name has the form
// of OpenShift's own providers. Errors are of type *transform.OptionsError or *Error.
func Preview(o Options) (extractor.Bundle, error) {
	objects, err := kustomize.Render(o.Dir)
	if err != nil {
		return extractor.Bundle{}, &Error{o.Dir, err}
	}
	o = o.guessed(objects).normalized()
	if o.ProviderName == "" || o.ProviderType == "" {
		return extractor.Bundle{}, &transform.OptionsError{Err: fmt.Errorf("no object has a label %s such as infrastructure-aws, so --provider-name and --provider-type have to be given", transform.ProviderLabel)}
	}
	if err := o.Check(); err != nil {
		return extractor.Bundle{}, err
	}
	manifests, err := preview(o, objects)
	if err != nil {
		return extractor.Bundle{}, &Error{o.Dir, err}
	}
	return extractor.Bundle{Metadata: o.Metadata(manifests), Manifests: manifests}, nil
}

func preview(o Options, objects []*unstructured.Unstructured) ([]byte, error) {
	objects, _, err := transform.Apply(transform.For(o.Profile), objects, o.Options)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, errors.New("nothing is left to install")
	}
	slices.SortStableFunc(objects, object.Compare)
	return kustomize.Print(objects)
}

// guessed returns the options with derived values for missing ones.
func (o Options) guessed(objects []*unstructured.Unstructured) Options {
	label, providerType := labelledAs(objects)
	o.ProviderType = cmp.Or(o.ProviderType, providerType)
	if label != "" {
		o.ProviderName = cmp.Or(o.ProviderName, label)
	}
	o.ProviderVersion = cmp.Or(o.ProviderVersion, "v0.0.0")
	if o.ImageName == "" {
		o.ImageName = usualPlaceholders + o.ProviderName
		if own, err := transform.OwnImage(objects, o.ImageName); own == "" {
			o.ImageName = "" // nothing runs, or which image is the own one is for the author to say
			if err != nil {
				o.SkipTransforms = append(o.SkipTransforms, transform.ImagePlaceholder.Name)
			}
		}
	}
	return o
}

// usualPlaceholders begin the placeholders of the providers that OpenShift builds.
const usualPlaceholders = "registry.ci.openshift.org/openshift:"

// labelledAs returns the provider's name and type that the objects' label says, or nothing.
func labelledAs(objects []*unstructured.Unstructured) (string, extractor.ProviderType) {
	for _, obj := range objects {
		label := obj.GetLabels()[transform.ProviderLabel]
		if label == "cluster-api" {
			return label, extractor.Core
		}
		switch providerType := contract.TypeOfLabel(label); providerType {
		case "":
		case extractor.Infrastructure:
			return "cluster-api-provider-" + strings.TrimPrefix(label, "infrastructure-"), providerType
		default:
			return "cluster-api-" + label, providerType
		}
	}
	return "", ""
}
