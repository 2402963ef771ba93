// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Print encodes objects as YAML documents with sorted keys and an indentation of
// two spaces. It folds no line, because a line break could split a ${VARIABLE}.
// Like kustomize, it quotes a string only if YAML requires it, or if a ${VARIABLE}
// in a field of type string has a default that would be read as another type.
func Print(objects []*unstructured.Unstructured) ([]byte, error) {
	documents, err := parallel.TryMap(objects, func(o *unstructured.Unstructured) ([]byte, error) {
		document, err := encodeOne(o)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", object.Describe(o), err)
		}
		return document, nil
	})
	return bytes.Join(documents, []byte("---\n")), err
}

func encodeOne(o *unstructured.Unstructured) ([]byte, error) {
	document, err := withQuotedTexts(o)
	if err != nil {
		return nil, err
	}
	return encode(document)
}

// encode encodes a tree of nodes or the fields of an object.
func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: yaml.CompactSequenceStyle})
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	err := encoder.Close()
	return out.Bytes(), err
}
