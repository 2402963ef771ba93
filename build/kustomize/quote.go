// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	oldyaml "sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/variable"
)

// withQuotedTexts returns the fields of an object for an encoder, with quotes for the expressions in fields of type string
// whose default would be read as another type, or not at all, without quotes: ${PORT:=8443} in an annotation,
// ${FLAG:=true} in an argument. kustomize loses such quotes. All other expressions stay as kustomize prints them: quotes
// would become part of the value in ${TEXT:=""}, and make ${REPLICAS:=1} a string.
func withQuotedTexts(o *unstructured.Unstructured) (any, error) {
	typed, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return o.Object, nil //nolint:nilerr // the types of the fields are unknown: the scheme has no CRDs and none of their instances
	}
	var document yaml.Node
	if err := document.Encode(o.Object); err != nil {
		return nil, err
	}
	quoteBelow(&document, reflect.TypeOf(typed))
	return &document, nil
}

func quoteBelow(node *yaml.Node, of reflect.Type) {
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == nil:
	case node.Kind == yaml.DocumentNode:
		quoteBelow(node.Content[0], of)
	case node.Kind == yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			quoteBelow(node.Content[i+1], fieldType(of, node.Content[i].Value))
		}
	case node.Kind == yaml.SequenceNode && of.Kind() == reflect.Slice:
		for _, item := range node.Content {
			quoteBelow(item, of.Elem())
		}
	case of.Kind() == reflect.String && needsQuotes(node):
		node.Style = yaml.SingleQuotedStyle
	}
}

// fieldType returns the type of a field of a struct, by its name in JSON, or of the
// values of a map. It returns nil for an unknown field.
func fieldType(of reflect.Type, name string) reflect.Type {
	if of.Kind() == reflect.Map {
		return of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(of) {
		if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key == name && field.IsExported() {
			return field.Type
		}
	}
	return nil
}

// needsQuotes reports whether an expression without quotes becomes something else
// than a string, with the defaults of its variables. If a variable has no default,
// its value is unknown.
func needsQuotes(node *yaml.Node) bool {
	if node.Style != 0 || !variable.Contains([]byte(node.Value)) {
		return false
	}
	known := true
	value := variable.Substitute([]byte(node.Value), nil, func(int, error) { known = false })
	if !known || len(value) == 0 || string(value) == node.Value {
		return false
	}
	return !isText(value)
}

// isText reports whether a value is a string in YAML 1.2, and in YAML 1.1, where
// yes and off are booleans.
func isText(value []byte) bool {
	document := append([]byte("value: "), value...)
	var plain yaml.Node
	if yaml.Unmarshal(document, &plain) != nil || plain.Content[0].Content[1].ShortTag() != yaml.NodeTagString {
		return false
	}
	var old struct{ Value any }
	err := oldyaml.Unmarshal(document, &old)
	_, text := old.Value.(string)
	return err == nil && text
}
