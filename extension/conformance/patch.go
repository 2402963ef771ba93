// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/internal/object"
)

// patched is a template of a request with the patches of the answer.
type patched struct {
	index         int // of the last patch in the answer
	item          map[string]any
	empty         bool // no patch has operations
	before, after map[string]any
}

// label names the template.
func (p patched) label() string { return labelOf(p.before) }

func labelOf(o map[string]any) string {
	return fmt.Sprintf("%v %v", o["kind"], object.MapAt(o, "metadata")["name"])
}

// patchesOf returns the request items and the patches of an answer to GeneratePatches; false if it has none.
func patchesOf(c Call) (items []map[string]any, patches []hooksv1.GeneratePatchesResponseItem, ok bool) {
	var request struct {
		Items []map[string]any `json:"items"`
	}
	var answer hooksv1.GeneratePatchesResponse
	if !c.succeeded() || json.Unmarshal(c.Request, &request) != nil || json.Unmarshal(c.Body, &answer) != nil {
		return nil, nil, false
	}
	return request.Items, answer.Items, true
}

// applyPatches applies the patches of an answer in their order, as Cluster API does. failed is called for each patch that cannot be applied.
func applyPatches(c Call, failed func(index int, template map[string]any, err error)) (templates []patched) {
	items, patches, _ := patchesOf(c)
	for i, patch := range patches {
		at := slices.IndexFunc(items, func(item map[string]any) bool { return item["uid"] == string(patch.UID) })
		if at < 0 || !validPatchType(patch.PatchType) {
			continue // other rules
		}
		known := slices.IndexFunc(templates, func(p patched) bool { return p.item["uid"] == string(patch.UID) })
		if known < 0 {
			object := asObject(items[at]["object"])
			known, templates = len(templates), append(templates, patched{item: items[at], empty: true, before: object, after: object})
		}
		after, err := apply(patch.PatchType, patch.Patch, templates[known].after)
		if err != nil {
			failed(i, templates[known].before, err)
			continue
		}
		templates[known].index, templates[known].after = i, after
		templates[known].empty = templates[known].empty && isEmptyPatch(patch.Patch)
	}
	return templates
}

func validPatchType(t hooksv1.PatchType) bool {
	return t == hooksv1.JSONPatchType || t == hooksv1.JSONMergePatchType
}

// isEmptyPatch reports whether a patch has no operations: Cluster API skips it, and the library of Cluster API for extensions returns it for
// templates without changes.
func isEmptyPatch(patch []byte) bool {
	return slices.Contains([]string{"", "[]", "{}", "null"}, string(bytes.TrimSpace(patch)))
}

// apply returns an object with a patch.
func apply(patchType hooksv1.PatchType, patch []byte, object map[string]any) (map[string]any, error) {
	document, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if patchType == hooksv1.JSONMergePatchType {
		document, err = jsonpatch.MergePatch(document, patch)
	} else {
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			document, err = operations.Apply(document)
		}
	}
	if err != nil {
		return nil, err
	}
	var result map[string]any
	return result, json.Unmarshal(document, &result)
}

// patchedItems returns the items of a request to GeneratePatches with its patches; false if there are none.
func patchedItems(c Call) ([]any, bool) {
	items, patches, ok := patchesOf(c)
	if !ok || len(patches) == 0 {
		return nil, false
	}
	var result []any
	for _, item := range items {
		result = append(result, item)
	}
	for _, p := range applyPatches(c, func(int, map[string]any, error) {}) {
		at := slices.IndexFunc(items, func(item map[string]any) bool { return item["uid"] == p.item["uid"] })
		result[at] = with(p.item, "object", p.after)
	}
	return result, true
}

// with returns a copy of an object with another field.
func with(object map[string]any, field string, value any) map[string]any {
	return body(object).with(field, value)
}

// changedFields returns the paths of the fields that differ between two objects. An empty object is the same as an absent one: Go types
// write "status: {}".
func changedFields(before, after any) []string {
	return object.ChangedFields(withoutEmpty(before), withoutEmpty(after))
}

// withoutEmpty returns a value without the fields that are empty objects.
func withoutEmpty(value any) any {
	content, isObject := value.(map[string]any)
	if !isObject {
		return value
	}
	kept := map[string]any{}
	for key, field := range content {
		if inner, isInner := field.(map[string]any); isInner {
			if field = withoutEmpty(inner); len(field.(map[string]any)) == 0 {
				continue
			}
		}
		kept[key] = field
	}
	return kept
}

// within reports whether a field is one of some fields, or a part of one.
func within(field string, allowed ...string) bool {
	return slices.ContainsFunc(allowed, func(parent string) bool {
		return field == parent || strings.HasPrefix(field, parent+".") || strings.HasPrefix(field, parent+"[")
	})
}
