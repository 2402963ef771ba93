// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Upgrade applies objects that older versions have applied.
type Upgrade struct {
	*Schemas
	// Namespace is the namespace of the installer.
	Namespace string
	// Older returns the objects of an older owner by its revision number; nil if there is none.
	Older func(number int64) map[object.Identity]*unstructured.Unstructured
	// Ignored are the fields that the drift policy leaves to other actors.
	Ignored []v1alpha1.IgnoredFields
}

// Takeover returns the change of a live object that the apply of the desired object needs; nil if it needs none, because no older version
// owns the object, or the installer has applied the fields that go, and no other actor owns them. The preflight, the plan and the apply use it.
func (u Upgrade) Takeover(owner string, live, desired *unstructured.Unstructured) (*Takeover, error) {
	controller := revision.Owner(u.Namespace, live)
	if controller == "" || controller == owner || u.Older == nil {
		return nil, nil
	}
	number, err := revision.Number(controller)
	if err != nil {
		return nil, err
	}
	older := u.Older(number)[object.IdentityOf(desired)]
	if older == nil {
		return nil, nil
	}
	return u.Schemas.Takeover(live, older, desired, u.Ignored)
}

// Takeover makes the installer the only owner of the fields that an upgrade removes.
type Takeover struct {
	// Managed are the field managers of the object after the change.
	Managed []metav1.ManagedFieldsEntry

	live, desired *typed.TypedValue
	fields        *fieldpath.Set // of live
	removed       *fieldpath.Set
}

// Takeover returns the change of a live object that the apply of the desired object needs, so that all fields go that the older version of the
// object applied; nil if it needs none. The objects are not changed. The desired object may lack the fields of the policy.
func (s *Schemas) Takeover(live, older, desired *unstructured.Unstructured, policy []v1alpha1.IgnoredFields) (*Takeover, error) {
	if kind := desired.GroupVersionKind(); live.GroupVersionKind() != kind || older.GroupVersionKind() != kind || ownsAlone(live) && !dropsAccount(older, desired) {
		return nil, nil
	}
	if older = revision.Applied(older); object.Equal(older.Object, desired.Object) {
		return nil, nil
	}
	values, err := s.typed(live, older, desired)
	if err != nil {
		return nil, err
	}
	fields := make([]*fieldpath.Set, len(values))
	for i, value := range values {
		if fields[i], err = value.ToFieldSet(); err != nil {
			return nil, err
		}
	}
	left := &fieldpath.Set{}
	for _, pointer := range pointers(policy, desired) {
		left.Insert(locate(fields[2], desired.Object, pointer))
	}
	dropped, emptied := droppedFields(values[1], fields[1], fields[2])
	out := &Takeover{live: values[0], desired: values[2], fields: fields[0]}
	if out.Managed, out.removed, err = assign(live, fields[0], dropped, emptied, left); err != nil || out.Managed == nil {
		return nil, err
	}
	return out, nil
}

// Upgraded returns the object after the apply.
func (t *Takeover) Upgraded() (*unstructured.Unstructured, error) {
	rest := t.live.RemoveItems(named(t.live, t.fields).Difference(named(t.live, t.fields.Difference(t.removed))))
	merged, err := rest.Merge(t.desired)
	if err != nil {
		return nil, fmt.Errorf("merging the fields of an object: %w", err)
	}
	content, _ := merged.AsValue().Unstructured().(map[string]any)
	return &unstructured.Unstructured{Object: content}, nil
}

// named returns fields with the structures that contain them.
func named(of *typed.TypedValue, fields *fieldpath.Set) *fieldpath.Set {
	return fields.EnsureNamedFieldsAreMembers(of.Schema(), of.TypeRef())
}

// within returns the fields at or below others.
func within(fields, others *fieldpath.Set) *fieldpath.Set {
	return fields.Difference(fields.RecursiveDifference(others))
}

// isOurs reports whether the installer is a field manager.
func isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == v1alpha1.FieldOwner && entry.Subresource == ""
}

// isApplied reports whether an entry has the fields that the installer has applied. An apply that lacks one of them removes it; the fields of a
// create stay.
func isApplied(entry metav1.ManagedFieldsEntry) bool {
	return isOurs(entry) && entry.Operation == metav1.ManagedFieldsOperationApply
}

// Owned reports whether the installer owns fields of an object. After a restore from a backup, it owns none.
func Owned(live metav1.Object) bool { return slices.ContainsFunc(live.GetManagedFields(), isOurs) }

// ownsAlone reports whether all fields of an object were applied by the installer, or written through a subresource.
func ownsAlone(live metav1.Object) bool {
	return Owned(live) && !slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "" && !isApplied(entry) })
}

// account is the name of the service account in the pod template of a workload. The API server copies it into a deprecated field, and from there
// it would come back.
var account = fieldpath.MakePathOrDie("spec", "template", "spec", "serviceAccountName")

var accountCopy = fieldpath.MakePathOrDie("spec", "template", "spec", "serviceAccount")

// dropsAccount reports whether an upgrade removes the name of the service account.
func dropsAccount(older, desired *unstructured.Unstructured) bool {
	name := func(obj *unstructured.Unstructured) string {
		return object.TextAt(obj.Object, "spec", "template", "spec", "serviceAccountName")
	}
	return name(older) != "" && name(desired) == ""
}

// fieldsOf returns the fields of a field manager.
func fieldsOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	out := &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return out, nil
	}
	if err := out.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("reading the fields of field manager %s: %w", entry.Manager, err)
	}
	return out, nil
}

// droppedFields returns the fields of an older object that the desired one lacks: dropped go with all that is below them, emptied are lists and
// maps in which the entries of other actors stay.
func droppedFields(older *typed.TypedValue, before, after *fieldpath.Set) (dropped, emptied *fieldpath.Set) {
	dropped, emptied = &fieldpath.Set{}, &fieldpath.Set{}
	for path := range named(older, before).Difference(named(older, after)).All() {
		switch path = path.Copy(); {
		case !upgraded(path):
		case !before.Has(path) && !isStruct(older, path):
			emptied.Insert(path)
		case path[len(path)-1].String() != ".caBundle": // goes with its webhook
			dropped.Insert(path)
		}
	}
	if dropped.Has(account) {
		dropped.Insert(accountCopy)
	}
	return dropped, emptied
}

// upgraded reports whether an upgrade may remove a field: not the status, nor what identifies an object.
func upgraded(path fieldpath.Path) bool {
	switch path[0].String() {
	case ".status", ".apiVersion", ".kind":
		return false
	case ".metadata":
		return len(path) > 2 && slices.Contains([]string{".labels", ".annotations", ".finalizers"}, path[1].String())
	}
	return true
}

// isStruct reports whether the type of a field defines the names of its fields.
func isStruct(of *typed.TypedValue, path fieldpath.Path) bool {
	at := of.TypeRef()
	for _, element := range path {
		atom, known := of.Schema().Resolve(at)
		switch {
		case known && atom.Map != nil && element.FieldName != nil:
			at = atom.Map.ElementType
			if field, named := atom.Map.FindField(*element.FieldName); named {
				at = field.Type
			}
		case known && atom.List != nil:
			at = atom.List.ElementType
		default:
			return false
		}
	}
	atom, known := of.Schema().Resolve(at)
	return known && atom.Map != nil && len(atom.Map.Fields) > 0
}

// assign returns the field managers of an object after the installer has taken over the dropped fields, except those that are left to others,
// and these fields; nil if it owns them alone.
func assign(live metav1.Object, fields, dropped, emptied, left *fieldpath.Set) (managed []metav1.ManagedFieldsEntry, removed *fieldpath.Set, err error) {
	sets := map[int]*fieldpath.Set{}
	owned := &fieldpath.Set{}
	for i, entry := range live.GetManagedFields() {
		if sets[i], err = fieldsOf(entry); err != nil {
			return nil, nil, err
		}
		if isApplied(entry) {
			owned = owned.Union(sets[i])
		} else if entry.Subresource != "" {
			left = left.Union(sets[i])
		}
	}
	removed = within(fields, dropped).RecursiveDifference(left)
	changed := !removed.Difference(owned).Empty()
	version, _ := live.(interface{ GetAPIVersion() string })
	ours, applied := metav1.ManagedFieldsEntry{Manager: v1alpha1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version.GetAPIVersion(), FieldsType: "FieldsV1"}, removed
	for i, entry := range live.GetManagedFields() {
		switch {
		case isApplied(entry):
			ours, applied = entry, applied.Union(sets[i])
			continue
		case entry.Subresource == "":
			rest := without(sets[i].Difference(within(sets[i], dropped).RecursiveDifference(left)), emptied)
			if rest.Equals(sets[i]) {
				break
			}
			changed = true
			if rest.Empty() {
				continue
			}
			if entry.FieldsV1, err = encoded(rest); err != nil {
				return nil, nil, err
			}
		}
		managed = append(managed, entry)
	}
	if !changed {
		return nil, nil, nil
	}
	ours.FieldsV1, err = encoded(applied)
	return append(managed, ours), removed, err
}

// without returns the fields without those lists and maps that have no entry in them.
func without(fields, emptied *fieldpath.Set) *fieldpath.Set {
	out := fields
	for path := range emptied.All() {
		below := fields
		for _, element := range path {
			below = below.WithPrefix(element)
		}
		if below.Empty() {
			out = out.Difference(fieldpath.NewSet(path.Copy()))
		}
	}
	return out
}

func encoded(fields *fieldpath.Set) (*metav1.FieldsV1, error) {
	data, err := fields.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding fields: %w", err)
	}
	return metav1.NewFieldsV1(string(data)), nil
}
