// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// encode writes objects as YAML documents: keys sorted, two spaces, no line
// folded (a folded line could tear a ${VARIABLE} apart), the texts of quoted in quotes.
func encode(objects []*unstructured.Unstructured, quoted texts) ([]byte, error) {
	documents, err := concurrently(objects, func(o *unstructured.Unstructured) ([]byte, error) {
		document, err := encodeOne(o, quoted)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", nameOf(o), err)
		}
		return document, nil
	})
	return bytes.Join(documents, []byte("---\n")), err
}

func encodeOne(o *unstructured.Unstructured, quoted texts) ([]byte, error) {
	var document yaml.Node
	if err := document.Encode(o.Object); err != nil {
		return nil, err
	}
	quoted.quote(&document)
	quoteMetadata(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: yaml.CompactSequenceStyle})
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	err := encoder.Close()
	return out.Bytes(), err
}

// quote puts quotes around the texts of t below node.
func (t texts) quote(node *yaml.Node) {
	if quotes, quoted := t[node.Value]; quoted && node.Kind == yaml.ScalarNode {
		node.Style = quotes
	}
	for _, child := range node.Content {
		t.quote(child)
	}
}

// quoteMetadata puts quotes around the values of annotations and labels that have
// a variable, for kustomize forgets theirs and they must stay texts: not around those with
// quotes in them, such as ${X:=""}, which are written to be substituted without.
func quoteMetadata(document *yaml.Node) {
	metadata := valueOf(document, "metadata")
	for _, field := range []string{"annotations", "labels"} {
		values := valueOf(metadata, field)
		for i := 1; values != nil && i < len(values.Content); i += 2 {
			if text := values.Content[i].Value; strings.Contains(text, "${") && !strings.ContainsAny(text, `"'`) {
				values.Content[i].Style = yaml.DoubleQuotedStyle
			}
		}
	}
}

// valueOf returns the value of a key of a map, or nil.
func valueOf(node *yaml.Node, key string) *yaml.Node {
	for i := 0; node != nil && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}
