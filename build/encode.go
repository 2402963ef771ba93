// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// encode writes objects as YAML documents: keys sorted, two spaces, no line
// folded (a folded line could tear a ${VARIABLE} apart).
func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: yaml.CompactSequenceStyle})
	for _, o := range objects {
		if err := encoder.Encode(o.Object); err != nil {
			return nil, fmt.Errorf("writing %s: %w", nameOf(o), err)
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("writing manifests: %w", err)
	}
	return out.Bytes(), nil
}
