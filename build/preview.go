// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/capi-installer/capi-installer/extractor"
)

// KustomizationIn returns the path of the file that makes dir a kustomize directory; empty if it is none.
func KustomizationIn(dir string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file
		}
	}
	return ""
}

// Preview makes of a kustomize directory the bundle that Generate would make, to be
// looked at: what options do not say is read off the objects, as far as it can be, and images need not be by
// digest yet. The name and the type are those of the provider label, the version is v0.0.0, the image name is one as OpenShift's
// own providers have. Errors are of type *OptionsError or *GenerateError.
func Preview(o GenerateOptions) (extractor.Bundle, error) {
	objects, quoted, err := renderKustomize(o.Dir)
	if err != nil {
		return extractor.Bundle{}, &GenerateError{o.Dir, err}
	}
	o = o.guessed(objects).normalized()
	if o.ProviderName == "" || o.ProviderType == "" {
		return extractor.Bundle{}, &OptionsError{fmt.Errorf("no object has a label %s such as infrastructure-aws, so --provider-name and --provider-type have to be given", providerLabel)}
	}
	if err := o.check(); err != nil {
		return extractor.Bundle{}, &OptionsError{err}
	}
	manifests, err := preview(o, objects, quoted)
	if err != nil {
		return extractor.Bundle{}, &GenerateError{o.Dir, err}
	}
	return extractor.Bundle{Metadata: o.metadata(manifests), Manifests: manifests}, nil
}

func preview(o GenerateOptions, objects []*unstructured.Unstructured, quoted texts) ([]byte, error) {
	objects, _, err := apply(Transforms(), objects, o)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, errors.New("nothing is left to install")
	}
	sortObjects(objects)
	return encode(objects, quoted)
}

// guessed fills in what options do not say.
func (o GenerateOptions) guessed(objects []*unstructured.Unstructured) GenerateOptions {
	label, providerType := labelledAs(objects)
	o.ProviderType = cmp.Or(o.ProviderType, providerType)
	if label != "" {
		o.ProviderName = cmp.Or(o.ProviderName, label)
	}
	o.ProviderVersion = cmp.Or(o.ProviderVersion, "v0.0.0")
	if o.ImageName == "" {
		o.ImageName = usualPlaceholders + o.ProviderName
		if own, err := ownImage(objects, o.ImageName); own == "" {
			o.ImageName = "" // nothing runs, or which image is the own one is for the author to say
			if err != nil {
				o.SkipTransforms = append(o.SkipTransforms, imagePlaceholder.Name)
			}
		}
	}
	return o
}

// usualPlaceholders begin the placeholders of the providers that OpenShift builds.
const usualPlaceholders = "registry.ci.openshift.org/openshift:"

// labelledAs returns the provider's name and type that the objects' label says, or nothing.
func labelledAs(objects []*unstructured.Unstructured) (string, extractor.ProviderType) {
	for _, object := range objects {
		label := object.GetLabels()[providerLabel]
		if label == "cluster-api" {
			return label, extractor.Core
		}
		for _, providerType := range extractor.ProviderTypes() {
			name, has := strings.CutPrefix(label, clusterctlTypes[providerType].prefix+"-")
			if has && providerType == extractor.Infrastructure {
				return "cluster-api-provider-" + name, providerType
			}
			if has {
				return "cluster-api-" + label, providerType
			}
		}
	}
	return "", ""
}
