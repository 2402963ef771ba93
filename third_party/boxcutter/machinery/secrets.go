// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// convertStringData moves the stringData of a Secret to data, as the API server does.
// stringData is never returned, so it cannot be compared.
func convertStringData(obj Object) {
	secret, ok := obj.(*unstructured.Unstructured)
	if !ok || secret.GroupVersionKind() != secretKind {
		return
	}
	texts, found, err := unstructured.NestedStringMap(secret.Object, "stringData")
	data, _, dataErr := unstructured.NestedMap(secret.Object, "data")
	if !found || err != nil || dataErr != nil {
		return // The API server reports the error.
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
