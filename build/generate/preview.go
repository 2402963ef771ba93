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
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Preview returns the bundle that Bundle would build, for inspection: missing
// options are derived from the objects if possible, and images need no digest. The
// name comes from the provider label, the type from the label or the CRDs, the
// version is v0.0.0, and the image name has the form of OpenShift's own providers.
// A transform that fails is skipped, and its error is one of the notes: the rules have
// findings in the objects that it would have changed. The error is a
// *transform.OptionsError for wrong options.
func Preview(o Options) (bundle extractor.Bundle, notes []error, err error) {
	objects, err := kustomize.Render(o.Dir)
	if err != nil {
		return extractor.Bundle{}, nil, fmt.Errorf("generating from %s: %w", o.Dir, err)
	}
	if o, err = o.guessed(objects); err != nil {
		return extractor.Bundle{}, nil, &transform.OptionsError{Err: err}
	}
	if err := o.Check(); err != nil {
		return extractor.Bundle{}, nil, err
	}
	manifests, err := preview(o, objects)
	for failed := new(transform.Error); errors.As(err, &failed) && len(o.Images) == 0; {
		notes = append(notes, err)
		o.SkipTransforms = append(o.SkipTransforms, failed.Transform)
		if objects, err = kustomize.Render(o.Dir); err == nil { // the transforms modified the objects
			manifests, err = preview(o, objects)
		}
	}
	if err != nil {
		return extractor.Bundle{}, nil, fmt.Errorf("generating from %s: %w", o.Dir, err)
	}
	return extractor.Bundle{Metadata: o.Metadata(manifests), Manifests: manifests}, notes, nil
}

func preview(o Options, objects []*unstructured.Unstructured) ([]byte, error) {
	objects, _, err := transform.Apply(transform.For(o.Profile), objects, o.Options)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, errors.New("no objects to install")
	}
	slices.SortStableFunc(objects, object.Compare)
	return kustomize.Print(objects)
}

// guessed returns the options with derived values for those that are missing.
func (o Options) guessed(objects []*unstructured.Unstructured) (Options, error) {
	label := labelOf(objects)
	if err := o.guessType(label, objects); err != nil {
		return o, err
	}
	if o.ProviderName == "" && label == "" {
		return o, fmt.Errorf("--provider-name is required: no object has the label %s, such as infrastructure-aws", capicontract.ProviderLabel)
	}
	o.ProviderName = cmp.Or(o.ProviderName, nameOf(label, o.ProviderType))
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
	return o.normalized(), nil
}

// guessType sets a missing type from the label or the CRDs.
func (o *Options) guessType(label string, objects []*unstructured.Unstructured) error {
	if o.ProviderType != "" {
		return nil
	}
	definitions := slices.DeleteFunc(slices.Clone(objects), func(obj *unstructured.Unstructured) bool { return !object.IsCRD(obj) })
	manifests, err := kustomize.Print(definitions)
	if err != nil {
		return err
	}
	types := contract.ProviderTypes(label, manifests)
	if len(types) == 1 {
		o.ProviderType = types[0]
		return nil
	}
	reason := fmt.Sprintf("label %s: %q names no type", capicontract.ProviderLabel, label)
	missing := "--provider-type"
	if label == "" {
		reason = "no object has the label " + capicontract.ProviderLabel
		if o.ProviderName == "" {
			missing += ", --provider-name"
		}
	}
	return fmt.Errorf("required flag(s) %s not set: %s, and %s", missing, reason, describeTypes(types))
}

// describeTypes explains why the CRDs do not determine the type: they belong to no
// type, or to several.
func describeTypes(types []extractor.ProviderType) string {
	if len(types) == 0 {
		return "no CRD is of a kind with a contract"
	}
	return "the CRDs are those of several types: " + text.Join(types)
}

// usualPlaceholders is the prefix of the placeholders of the providers that
// OpenShift builds.
const usualPlaceholders = "registry.ci.openshift.org/openshift:"

// labelOf returns the value of the first provider label among the objects.
func labelOf(objects []*unstructured.Unstructured) string {
	for _, obj := range objects {
		if label := obj.GetLabels()[capicontract.ProviderLabel]; label != "" {
			return label
		}
	}
	return ""
}

// nameOf returns the usual name of a provider with a label.
func nameOf(label string, of extractor.ProviderType) string {
	canonical := contract.ProviderLabel(extractor.Metadata{ProviderName: label, ProviderType: of})
	switch of {
	case extractor.Core:
		return canonical
	case extractor.Infrastructure:
		return "cluster-api-provider-" + strings.TrimPrefix(canonical, "infrastructure-")
	default:
		return "cluster-api-" + canonical
	}
}
