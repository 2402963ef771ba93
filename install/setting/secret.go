// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Secrets are values of keys of Secrets. Objects and settings have placeholders for them, so that only Secrets contain the values.
// The zero value has none.
type Secrets struct {
	// Salt is random, so that the values cannot be guessed from the digest. A version takes it from the version before.
	Salt []byte `json:"salt"`
	// Values are the values by placeholder.
	Values map[string]string `json:"values"`
}

// NewSalt returns a random salt.
func NewSalt() []byte {
	salt := make([]byte, 32)
	_, _ = rand.Read(salt) // it never fails
	return salt
}

// Placeholder returns the text that objects have in place of a value. It needs no quotes in YAML.
func Placeholder(key v1alpha1.SecretKeyReference) string {
	return "<secret:" + key.Name + "/" + key.Key + ">"
}

// SecretKeys returns the keys of Secrets that variables refer to, each once. A Secret in variablesFrom that is not expanded has an empty key.
func (s Settings) SecretKeys() (keys []v1alpha1.SecretKeyReference) {
	for _, component := range s.Components {
		if component.VariablesFrom != nil {
			keys = append(keys, v1alpha1.SecretKeyReference{Name: component.VariablesFrom.SecretRef.Name})
		}
		for _, variable := range component.Variables {
			if variable.ValueFrom != nil && !slices.Contains(keys, variable.ValueFrom.SecretKeyRef) {
				keys = append(keys, variable.ValueFrom.SecretKeyRef)
			}
		}
	}
	return keys
}

// Encode returns the stored form; nil without values.
func (s Secrets) Encode() []byte {
	if len(s.Values) == 0 {
		return nil
	}
	encoded, _ := json.Marshal(s) // strings and bytes always have a JSON form
	return encoded
}

// DecodeSecrets reads the stored form. An error does not contain it.
func DecodeSecrets(encoded []byte) (s Secrets, err error) { return s, json.Unmarshal(encoded, &s) }

// Digest identifies the values; empty without values.
func (s Secrets) Digest() digest.Digest {
	encoded := s.Encode()
	if encoded == nil {
		return ""
	}
	return digest.FromBytes(encoded)
}

// Reveal returns an object with values in place of placeholders: the object itself if it has none, else a copy.
func (s Secrets) Reveal(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if len(s.Values) == 0 {
		return obj
	}
	var pairs []string
	for _, placeholder := range slices.Sorted(maps.Keys(s.Values)) {
		pairs = append(pairs, placeholder, s.Values[placeholder])
	}
	replacer := strings.NewReplacer(pairs...)
	for _, text := range object.Texts(obj.Object) {
		if replacer.Replace(text) != text {
			revealed := obj.DeepCopy()
			object.ReplaceTexts(revealed.Object, replacer.Replace)
			return revealed
		}
	}
	return obj
}

// RevealAll returns objects with values in place of placeholders.
func (s Secrets) RevealAll(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	out := slices.Clone(objects)
	for i := range out {
		out[i] = s.Reveal(out[i])
	}
	return out
}
