// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// A field in a name with dots, or in a list, is compared with the desired value. An empty object is no field.
func TestInPlaceDesired_FieldsOfMapsAndLists(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(inPlaceRules, func(r Rule) bool { return r.ID == "in-place/desired" })
	for operation, want := range map[string]int{
		`{"op": "add", "path": "/spec/labels", "value": {"a.b/c": "desired"}}`: 0,
		`{"op": "add", "path": "/spec/labels", "value": {"a.b/c": "other"}}`:   1,
		`{"op": "add", "path": "/spec/taints/0/value", "value": "desired"}`:    0,
		`{"op": "add", "path": "/spec/taints/0/value", "value": "other"}`:      1,
		`{"op": "add", "path": "/status", "value": {"nested": {}}}`:            0,
	} {
		request := `{"current": {"machine": {"spec": {"taints": [{"value": "x"}]}}}, "desired": {"machine": {"spec": {"labels": {"a.b/c": "desired"}, "taints": [{"value": "desired"}]}}}}`
		answer := fmt.Sprintf(`{"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": %q}}`, base64.StdEncoding.EncodeToString([]byte("["+operation+"]")))
		handler := &Handler{Calls: map[Variant][]Call{Real: {{Request: []byte(request), Answer: Answer{Status: http.StatusOK, Body: []byte(answer)}}}}}
		if found := inPlaceRules[at].Handler(handler); len(found) != want {
			t.Errorf("%s: %v, want %d", operation, found, want)
		}
	}
}
