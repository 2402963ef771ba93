// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldsOf returns the fields of an entry of managedFields.
func fieldsOf(obj Object, entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return set, nil
	}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("reading the managed fields of %s in %s: %w", entry.Manager, types.ToObjectRef(obj), err)
	}
	return set, nil
}

// isOwn reports whether an entry is that of the field owner for the object itself,
// not for a subresource. The fields of a create count as applied, because the entry
// is migrated before the first apply.
func isOwn(entry metav1.ManagedFieldsEntry, fieldOwner string) bool {
	return entry.Manager == fieldOwner && entry.Subresource == ""
}
