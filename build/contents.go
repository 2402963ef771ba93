// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capi-installer/capi-installer/extractor"
)

// Contents is what a person wants to know of a bundle's manifests.
type Contents struct {
	// Objects counts all objects.
	Objects int `json:"objects"`
	// Kinds counts them by kind, sorted by group and kind.
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

// Variable is a variable of the manifests, such as ${LOGLEVEL:=0}.
type Variable struct {
	Name string `json:"name"`
	// Default is its first default, as it is written; nil if it has none anywhere.
	Default *string `json:"default,omitempty"`
	// Required says that it stands somewhere without a default, so that a cluster
	// must be given a value for it.
	Required bool `json:"required"`
}

// ContentsOf reads a bundle's manifests as they are, before a cluster puts in
// values for variables. An error is an extractor.ErrInvalid.
func ContentsOf(bundle extractor.Bundle) (Contents, error) {
	objects, err := Objects(bundle)
	if err != nil {
		return Contents{}, err
	}
	return Contents{Objects: len(objects), Kinds: countKinds(objects), Images: imagesOf(objects), Variables: variablesOf(bundle.Manifests)}, nil
}

// parse returns the objects of YAML documents, and the items of lists.
func parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var objects []*unstructured.Unstructured
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		if o.IsList() {
			err := o.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", number, err)
			}
		} else if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

func countKinds(objects []*unstructured.Unstructured) []KindCount {
	var counts []KindCount
	for _, o := range objects {
		kind := groupKind(o)
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

// variablePattern finds ${NAME} and ${NAME:=default} with the operators that give
// a default (=, :=, -, :-); another operator, as in ${NAME/old/new}, gives none. A default may hold a variable.
var variablePattern = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[=-])((?:[^{}$\n]|\$\{[^{}\n]*\}|\$)*)|[,^/#%][^\n}]*)?\}`)

func variablesOf(manifests []byte) []Variable {
	found := map[string]Variable{}
	addVariables(found, manifests)
	variables := make([]Variable, 0, len(found))
	for _, name := range sortedKeys(found) {
		variables = append(variables, found[name])
	}
	return variables
}

func addVariables(found map[string]Variable, text []byte) {
	for _, match := range variablePattern.FindAllSubmatch(text, -1) {
		name, operator, fallback := string(match[1]), match[2], string(match[3])
		variable := found[name]
		variable.Name = name
		switch {
		case operator == nil:
			variable.Required = true
		case variable.Default == nil:
			variable.Default = &fallback
		}
		found[name] = variable
		addVariables(found, match[3])
	}
}
