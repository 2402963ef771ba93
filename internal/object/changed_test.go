// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/internal/object"
)

func ExampleChangedFields() {
	before := map[string]any{"spec": map[string]any{"replicas": int64(1), "args": []any{"a"}, "containers": []any{map[string]any{"image": "a"}}}}
	after := map[string]any{"spec": map[string]any{"replicas": int64(1), "args": []any{"a", "b"}, "containers": []any{map[string]any{"image": "b"}}, "paused": true}}
	fmt.Println(object.ChangedFields(before, after))
	// Output: [spec.args spec.containers[0].image spec.paused]
}

// An object that only one side has differs in its fields, so that two writers of the same field have the same path.
func ExampleChangedFields_absent() {
	limits := map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}, "selector": map[string]any{}}
	fmt.Println(object.ChangedFields(map[string]any{}, limits), object.ChangedFields(limits, map[string]any{}))
	// Output: [resources.limits.memory selector] [resources.limits.memory selector]
}
