// SPDX-License-Identifier: Apache-2.0

package storedversion

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// moveOwners returns managed fields in which the owners in dropped versions of a group own the same fields in another version, and reports
// whether any did. An owner with fields in both versions gets one entry.
func moveOwners(entries []metav1.ManagedFieldsEntry, group string, dropped []string, to string) (moved []metav1.ManagedFieldsEntry, changed bool) {
	for _, entry := range entries {
		version, err := schema.ParseGroupVersion(entry.APIVersion)
		if err == nil && version.Group == group && slices.Contains(dropped, version.Version) {
			entry.APIVersion, changed = schema.GroupVersion{Group: group, Version: to}.String(), true
		}
		if at := slices.IndexFunc(moved, func(other metav1.ManagedFieldsEntry) bool { return sameOwner(other, entry) }); at >= 0 {
			moved[at].FieldsV1 = union(moved[at].FieldsV1, entry.FieldsV1)
		} else {
			moved = append(moved, entry)
		}
	}
	return moved, changed
}

// sameOwner reports whether the API server has one entry for both.
func sameOwner(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// union returns the fields in either set; the first set if one cannot be read.
func union(a, b *metav1.FieldsV1) *metav1.FieldsV1 {
	if a == nil || b == nil {
		return a
	}
	var first, second fieldpath.Set
	if first.FromJSON(a.GetRawReader()) != nil || second.FromJSON(b.GetRawReader()) != nil {
		return a
	}
	all, err := first.Union(&second).ToJSON()
	if err != nil {
		return a
	}
	return metav1.NewFieldsV1(string(all))
}
