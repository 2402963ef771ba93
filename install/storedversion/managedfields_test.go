// SPDX-License-Identifier: Apache-2.0

package storedversion

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMoveOwners_OfDroppedVersions(t *testing.T) {
	t.Parallel()
	entry := func(manager, version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	before := []metav1.ManagedFieldsEntry{
		entry("a", "example.com/v1alpha1", `{"f:spec":{"f:x":{}}}`),
		entry("a", "example.com/v1", `{"f:spec":{"f:y":{}}}`),
		entry("b", "example.com/v1alpha1", `{"f:spec":{"f:z":{}}}`),
		entry("c", "other.com/v1alpha1", `{}`),
	}
	want := []metav1.ManagedFieldsEntry{
		entry("a", "example.com/v1", `{"f:spec":{"f:x":{},"f:y":{}}}`),
		entry("b", "example.com/v1", `{"f:spec":{"f:z":{}}}`),
		entry("c", "other.com/v1alpha1", `{}`),
	}
	moved, changed := moveOwners(before, "example.com", []string{"v1alpha1"}, "v1")
	if diff := cmp.Diff(want, moved, cmp.Transformer("fields", func(f metav1.FieldsV1) string { return f.GetRawString() })); diff != "" || !changed {
		t.Errorf("changed: %t, (-want +got):\n%s", changed, diff)
	}
	if _, changed := moveOwners(before, "example.com", []string{"v1beta1"}, "v1"); changed {
		t.Error("changed without an owner in the dropped version")
	}
}
