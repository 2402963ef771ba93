// SPDX-License-Identifier: Apache-2.0

// Package predecessor recognizes objects of cluster-capi-operator, the operator
// that this one replaces, and hands them over. It takes and returns values; the
// caller writes.
//
// cluster-capi-operator writes no owner. An object belongs to it if the object has
// its labels and its revision number, and if the managed fields show that its
// installer wrote them. Labels alone prove nothing, because a copy has them too.
package predecessor

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Metadata that cluster-capi-operator writes on an object.
const (
	// Name of the operator in messages.
	Name = "cluster-capi-operator"
	// ComponentLabel holds the component that an object belongs to.
	ComponentLabel = v1alpha1.Prefix + "/managed-by"
	// ManagedByLabel has the value ManagedBy on every object.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "boxcutter"
	// FieldOwner is the manager of the fields that its installer applies.
	FieldOwner = v1alpha1.Prefix + "/InstallerController"
)

// Revision returns the number of an object's revision of cluster-capi-operator,
// and whether the object belongs to cluster-capi-operator at all.
func Revision(o *unstructured.Unstructured) (int64, bool) {
	number, err := strconv.ParseInt(o.GetAnnotations()[v1alpha1.RevisionAnnotation], 10, 64)
	return number, err == nil && labelled(o) && controllerless(o) &&
		holds(o, FieldOwner, "annotations", v1alpha1.RevisionAnnotation) && holds(o, FieldOwner, "labels", ComponentLabel)
}

// Owns reports whether an object belongs to cluster-capi-operator.
func Owns(o *unstructured.Unstructured) bool {
	_, owned := Revision(o)
	return owned
}

// Adoptable reports whether an installer in a namespace adopts an object of cluster-capi-operator, which runs in OpenShift only: with
// another namespace, the marks of an object are forged.
func Adoptable(namespace string, o *unstructured.Unstructured) bool {
	return namespace == v1alpha1.OpenShiftNamespaces.Operator && o != nil && (Owns(o) || HandedOver(o))
}

func labelled(o *unstructured.Unstructured) bool {
	labels := o.GetLabels()
	return labels[ManagedByLabel] == ManagedBy && labels[ComponentLabel] != ""
}

// controllerless reports whether an object has neither a controller nor an owner of the installer.
func controllerless(o *unstructured.Unstructured) bool {
	_, owned := o.GetAnnotations()[v1alpha1.OwnersAnnotation]
	return !owned && metav1.GetControllerOf(o) == nil
}

// holds reports whether a manager owns a label or an annotation.
func holds(o *unstructured.Unstructured, manager, field, key string) bool {
	path := fieldpath.MakePathOrDie("metadata", field, key)
	return slices.ContainsFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		if !heldBy(entry, manager) {
			return false
		}
		set, err := fieldsOf(entry)
		return err == nil && set.Has(path)
	})
}

// heldBy reports whether an entry belongs to a manager and covers the object rather
// than a subresource. An object that was created and never applied since has the
// fields of an update.
func heldBy(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Subresource == ""
}

func fieldsOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return set, nil
	}
	return set, set.FromJSON(entry.FieldsV1.GetRawReader())
}

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
