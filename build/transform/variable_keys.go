// SPDX-License-Identifier: Apache-2.0

package build

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var variableKeys = Transform{
	Name: "variable-keys",
	Does: "Drops annotations and labels whose key is a variable expression.",
	Why:  "The installer puts in values, not keys, and the API server refuses the object for a key that is left over.",
	Apply: eachObject(func(o *unstructured.Unstructured) {
		dropVariableKeys(mapAt(o.Object, "metadata"))
		dropVariableKeys(mapAt(podTemplate(o), "metadata"))
	}),
}

func dropVariableKeys(metadata map[string]any) {
	for _, field := range []string{"annotations", "labels"} {
		keys := mapAt(metadata, field)
		for key := range keys {
			if strings.Contains(key, "${") {
				delete(keys, key)
			}
		}
		if len(keys) == 0 {
			delete(metadata, field)
		}
	}
}
