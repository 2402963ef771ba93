// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

var variableKeys = Transform{
	Name: "variable-keys",
	Does: "Drops annotations and labels whose key is a variable expression.",
	Why:  "The installer substitutes variables in values, not in keys, and the API server rejects an object with such a key.",
	Apply: eachObject(func(o *unstructured.Unstructured) {
		dropVariableKeys(object.MapAt(o.Object, "metadata"))
		dropVariableKeys(object.MapAt(object.PodTemplate(o), "metadata"))
	}),
}

func dropVariableKeys(metadata map[string]any) {
	for _, field := range []string{"annotations", "labels"} {
		keys := object.MapAt(metadata, field)
		for key := range keys {
			if variable.Contains([]byte(key)) {
				delete(keys, key)
			}
		}
		if len(keys) == 0 {
			delete(metadata, field)
		}
	}
}
