// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"
	"slices"

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

// dropsFields reports whether the field owner owns fields that are not desired: fields that
// an earlier version of the object had, or defaults that the API server set when the
// object was created. It considers the entries with one of the operations. A field set
// that cannot be read counts as dropped.
func dropsFields(obj Object, desired *fieldpath.Set, fieldOwner string, operations ...metav1.ManagedFieldsOperationType) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		if !isOwn(entry, fieldOwner) || !slices.Contains(operations, entry.Operation) {
			return false
		}
		fields, err := fieldsOf(obj, entry)
		return err != nil || desired == nil || !all(fields.RecursiveDifference(ignored), func(path fieldpath.Path) bool { return covers(desired, path) })
	})
}

// covers reports whether a set has a path or a path below it. An entry of managedFields
// has the path of a map itself if it owns none of its fields.
func covers(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path[:len(path)-1] {
		set = set.WithPrefix(element)
	}
	last := path[len(path)-1]
	return set.Members.Has(last) || !set.WithPrefix(last).Empty()
}

// all reports whether all leaves of a set meet a condition.
func all(set *fieldpath.Set, condition func(fieldpath.Path) bool) bool {
	met := true
	for path := range leaves(set) { // The iterator cannot be stopped.
		met = met && condition(path)
	}
	return met
}
