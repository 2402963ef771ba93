// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldsOf returns the fields that an entry of managedFields holds.
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

// isOwn says whether an entry is that of our field owner for the object proper.
// What we wrote by a create counts like what we applied: it is only a matter of
// time until the entry is migrated.
func isOwn(entry metav1.ManagedFieldsEntry, fieldOwner string) bool {
	return entry.Manager == fieldOwner && entry.Subresource == ""
}

// wroteRevision says whether it is our field owner who holds the revision
// annotation of an object.
func (e *ObjectEngine) wroteRevision(obj Object) bool {
	path := fieldpath.MakePathOrDie("metadata", "annotations", e.revisionAnnotation())
	for _, entry := range obj.GetManagedFields() {
		if !isOwn(entry, e.fieldOwner) {
			continue
		}
		if set, err := fieldsOf(obj, entry); err == nil && set.Has(path) {
			return true
		}
	}
	return false
}
