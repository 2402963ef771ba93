// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/revision"
)

// settings returns a ConfigMap.
func settings(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"color": color},
	}}
}

func TestUnchangedSince(t *testing.T) {
	older := []revision.Phase{{Name: "a", Objects: []*unstructured.Unstructured{settings("same", "red"), settings("changed", "red"), settings("dropped", "red")}}}
	newer := []revision.Phase{{Name: "a"}, {Name: "b", Objects: []*unstructured.Unstructured{settings("same", "red"), settings("changed", "blue"), settings("added", "red")}}}
	e := &Engine{plans: map[string]plan{"old": {key: "digest without ", contents: contents{phases: older}}}}
	rev := &loadedRevision{name: "new", contents: contents{phases: newer}, sibling: func(number int64) (*loadedRevision, error) {
		if number != 1 {
			return nil, fmt.Errorf("revision %d not found", number)
		}
		return &loadedRevision{name: "old", digest: "digest"}, nil
	}}
	unchanged := e.unchangedSince(rev)
	for name, want := range map[string]bool{"same": true, "changed": false, "dropped": false, "added": false} {
		if got := unchanged(settings(name, "as applied"), 1); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	if unchanged(settings("same", "red"), 2) {
		t.Error("an object of a version that does not exist counts as the same")
	}
	rev.sibling = nil
	if e.unchangedSince(rev)(settings("same", "red"), 1) {
		t.Error("without older versions, an object counts as the same")
	}
}
