// SPDX-License-Identifier: Apache-2.0

// Package bundle reads the objects of a bundle, summarizes its contents, and writes
// bundles to directories without ever leaving a partial bundle.
package bundle

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Contents is a summary of the manifests of a bundle.
type Contents struct {
	// Objects counts all objects.
	Objects int `json:"objects"`
	// Kinds counts the objects of each kind, sorted by group and kind.
	Kinds []KindCount `json:"kinds"`
	// Images are the images of all containers, sorted.
	Images []string `json:"images"`
	// Variables are the variables of the manifests, sorted by name.
	Variables []Variable `json:"variables"`
}

// KindCount counts the objects of a kind.
type KindCount struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// Variable is a variable that manifests use, such as ${LOGLEVEL:=0}.
type Variable = variable.Variable

// ContentsOf summarizes the manifests of a bundle before any variable is
// substituted. An error is an extractor.ErrInvalid.
func ContentsOf(bundle extractor.Bundle) (Contents, error) {
	objects, err := Objects(bundle)
	if err != nil {
		return Contents{}, err
	}
	return Contents{Objects: len(objects), Kinds: countKinds(objects), Images: object.Images(objects...), Variables: variable.Variables(bundle.Manifests)}, nil
}

func countKinds(objects []*unstructured.Unstructured) []KindCount {
	var counts []KindCount
	for _, o := range objects {
		kind := object.GroupKind(o)
		same := func(c KindCount) bool { return c.Group == kind.Group && c.Kind == kind.Kind }
		if i := slices.IndexFunc(counts, same); i >= 0 {
			counts[i].Count++
			continue
		}
		counts = append(counts, KindCount{kind.Group, kind.Kind, 1})
	}
	slices.SortFunc(counts, func(a, b KindCount) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
	return counts
}

// Objects returns the objects of a bundle with their variables and the placeholder
// image. An error is an extractor.ErrInvalid.
func Objects(bundle extractor.Bundle) ([]*unstructured.Unstructured, error) {
	objects, err := yamldoc.Objects(bundle.Manifests)
	if err != nil {
		return nil, &extractor.InvalidError{Err: fmt.Errorf("reading the manifests of %s: %w", bundle.Metadata.ProviderName, err)}
	}
	return objects, nil
}
