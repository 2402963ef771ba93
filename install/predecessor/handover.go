// SPDX-License-Identifier: Apache-2.0

package predecessor

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// HandedOver reports whether the result of HandOver was written for an object and
// nothing was applied since.
func HandedOver(o *unstructured.Unstructured) bool {
	_, marked := o.GetAnnotations()[v1alpha1.RevisionAnnotation]
	return !marked && labelled(o) && controllerless(o) && holds(o, v1alpha1.FieldOwner, "labels", ComponentLabel)
}

// HandOver returns a copy of an object of cluster-capi-operator that belongs to no
// revision. The installer owns the applied fields of the copy: its next apply
// removes the fields that it does not apply. Only metadata changes.
func HandOver(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	changed := o.DeepCopy()
	unstructured.RemoveNestedField(changed.Object, "metadata", "annotations", v1alpha1.RevisionAnnotation)
	fields, err := renamed(changed.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("reading the managed fields of %s: %w", o.GetName(), err)
	}
	changed.SetManagedFields(fields)
	return changed, nil
}

// renamed returns the managed fields after the installer becomes the owner of
// cluster-capi-operator's fields.
func renamed(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	theirs := func(entry metav1.ManagedFieldsEntry) bool { return heldBy(entry, FieldOwner) }
	at := slices.IndexFunc(entries, theirs)
	if at < 0 {
		return entries, nil
	}
	union := &fieldpath.Set{}
	for _, entry := range entries {
		if !theirs(entry) && !heldBy(entry, v1alpha1.FieldOwner) {
			continue
		}
		set, err := fieldsOf(entry)
		if err != nil {
			return nil, err
		}
		union = union.Union(set)
	}
	encoded, err := union.ToJSON()
	if err != nil {
		return nil, err
	}
	taken := entries[at]
	taken.Manager, taken.Operation = v1alpha1.FieldOwner, metav1.ManagedFieldsOperationApply
	taken.FieldsV1 = &metav1.FieldsV1{}
	if err := taken.FieldsV1.UnmarshalJSON(bytes.TrimSpace(encoded)); err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(entries), func(entry metav1.ManagedFieldsEntry) bool {
		return theirs(entry) || heldBy(entry, v1alpha1.FieldOwner)
	})
	return append(rest, taken), nil
}
