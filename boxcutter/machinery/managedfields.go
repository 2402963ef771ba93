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

// isOwn reports whether an entry belongs to the field owner and is not for a
// subresource. The entry of a create counts too, because it is migrated before the
// first apply.
func isOwn(entry metav1.ManagedFieldsEntry, fieldOwner string) bool {
	return entry.Manager == fieldOwner && entry.Subresource == ""
}
