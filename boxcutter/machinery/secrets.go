// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// spellOut moves what a Secret wants as stringData to data, as the API server does
// when it is written. That field can never be read, so that what became of it
// could not be compared with what is there.
func spellOut(obj Object) {
	secret, ok := obj.(*unstructured.Unstructured)
	if !ok || secret.GroupVersionKind() != secretKind {
		return
	}
	texts, found, err := unstructured.NestedStringMap(secret.Object, "stringData")
	data, _, dataErr := unstructured.NestedMap(secret.Object, "data")
	if !found || err != nil || dataErr != nil {
		return // The API server says what is wrong with it.
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	secret.Object["data"] = data
	delete(secret.Object, "stringData")
}
