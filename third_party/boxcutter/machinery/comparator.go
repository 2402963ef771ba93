// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Comparator compares desired with actual objects locally, without a dry run, and
// finds the managers of the fields that differ.
//
// It merges lists and maps as the OpenAPI schema defines, like the API server.
// Schemas are cached until discovery lists newer ones. Discovery is read once a
// minute, and immediately if an object does not match the cached schema. If a kind
// has no schema yet, such as right after its CRD was created, lists are compared as
// a whole; the worst case is an unnecessary apply.
type Comparator struct {
	schemas    *schemas
	scheme     *runtime.Scheme
	fieldOwner string
}

// NewComparator returns a comparator that reads schemas with the discovery client
// and compares on behalf of the field owner. The scheme supplies the kind of
// typed objects without TypeMeta.
func NewComparator(
	discoveryClient discoveryClient,
	scheme *runtime.Scheme,
	fieldOwner string,
) *Comparator {
	return &Comparator{
		schemas:    &schemas{client: discoveryClient},
		scheme:     scheme,
		fieldOwner: fieldOwner,
	}
}

// ignored are fields that the API server sets or that identify the object.
var ignored = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"),
	fieldpath.MakePathOrDie("metadata", "generateName"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "uid"),
	fieldpath.MakePathOrDie("metadata", "resourceVersion"),
	fieldpath.MakePathOrDie("metadata", "generation"),
	fieldpath.MakePathOrDie("metadata", "selfLink"),
	fieldpath.MakePathOrDie("metadata", "creationTimestamp"),
	fieldpath.MakePathOrDie("metadata", "deletionTimestamp"),
	fieldpath.MakePathOrDie("metadata", "deletionGracePeriodSeconds"),
	fieldpath.MakePathOrDie("metadata", "managedFields"),
)

var ignoredWithStatus = ignored.Union(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))

// Compare compares a desired object with the actual one. Both must have the same
// kind. It fails with *MisuseError, or if reading schemas from the API server
// fails.
func (d *Comparator) Compare(
	desiredObject, actualObject Object,
	opts ...types.ComparatorOption,
) (res CompareResult, err error) {
	var options types.ComparatorOptions
	for _, opt := range opts {
		opt.ApplyToComparatorOptions(&options)
	}
	desired, actual, err := d.pair(desiredObject, actualObject, options)
	if err != nil {
		return CompareResult{}, err
	}
	typed, err := d.typed(desired, actual)
	if err != nil {
		return CompareResult{}, fmt.Errorf("comparing %s: %w", types.ToObjectRef(desired), err)
	}
	if res, err = typed.compare(); err != nil {
		return CompareResult{}, fmt.Errorf("comparing %s: %w", types.ToObjectRef(desired), err)
	}
	if !compat.Original { // The original writes an object with such a value at each reconcile.
		res.Comparison.Modified = ignoreServerDefaults(res.Comparison.Modified, desired, actual)
		d.withoutOtherForms(&res, desired, actual)
	}
	return res, d.attribute(&res, typed.ignored, actual)
}

// pair returns both objects as unstructured objects, the desired one with its
// owner.
func (d *Comparator) pair(
	desiredObject, actualObject Object, options types.ComparatorOptions,
) (desired, actual *unstructured.Unstructured, err error) {
	if options.Owner != nil && options.OwnerStrategy == nil {
		return nil, nil, misuse(desiredObject, "OwnerStrategy must be set if Owner is set")
	}
	if desired, err = d.unstructured(desiredObject); err != nil {
		return nil, nil, err
	}
	if actual, err = d.unstructured(actualObject); err != nil {
		return nil, nil, err
	}
	if desired.GroupVersionKind() != actual.GroupVersionKind() {
		return nil, nil, misuse(desired, "comparing objects of different kinds: actual object is %s", types.ToObjectRef(actual))
	}
	if options.Owner == nil {
		return desired, actual, nil
	}
	desired = desired.DeepCopy()
	return desired, actual, keepOwners(options.Owner, options.OwnerStrategy, desired, actual)
}

// unstructured converts an object. An unstructured object is returned without a
// copy.
func (d *Comparator) unstructured(obj Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(obj, d.scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", types.ToObjectRef(obj), err)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", types.ToObjectRef(obj), err)
	}
	out := &unstructured.Unstructured{Object: data}
	out.SetGroupVersionKind(kind)
	return out, nil
}

// typedPair holds two objects as typed values of the same schema.
type typedPair struct {
	desired, actual *typed.TypedValue
	// ignored are the fields that are not compared.
	ignored *fieldpath.Set
}

// typed converts both objects with their schema. If they do not match the cached
// schema, it tries the newest one, and then compares without a schema.
func (d *Comparator) typed(desired, actual *unstructured.Unstructured) (typedPair, error) {
	for _, newest := range []bool{false, true} {
		schema, err := d.schemas.of(desired.GroupVersionKind().GroupVersion(), newest)
		if err != nil {
			return typedPair{}, err
		}
		if schema == nil {
			continue
		}
		if pair, fits := schema.pair(desired, actual); fits {
			return pair, nil
		}
	}
	return deducedPair(desired, actual)
}

// deducedPair converts objects without a schema. It does not know whether they
// have a status subresource, but the status is rarely a desired field.
func deducedPair(desired, actual *unstructured.Unstructured) (typedPair, error) {
	desiredTyped, err := typed.DeducedParseableType.FromUnstructured(desired.Object)
	if err != nil {
		return typedPair{}, err
	}
	actualTyped, err := typed.DeducedParseableType.FromUnstructured(actual.Object)
	if err != nil {
		return typedPair{}, err
	}
	return typedPair{desired: desiredTyped, actual: actualTyped, ignored: ignoredWithStatus}, nil
}

func (p typedPair) compare() (CompareResult, error) {
	wanted, err := p.desired.ToFieldSet()
	if err != nil {
		return CompareResult{}, err
	}
	comparison, err := p.desired.Compare(p.actual)
	if err != nil {
		return CompareResult{}, err
	}
	return CompareResult{
		DesiredFieldSet: wanted.RecursiveDifference(p.ignored),
		Comparison:      comparison.ExcludeFields(p.ignored),
	}, nil
}

// attribute adds the other field managers of the actual object. A desired field is
// a conflict if another manager owns it and the field owner does not.
func (d *Comparator) attribute(res *CompareResult, ignored *fieldpath.Set, actual *unstructured.Unstructured) error {
	entries := actual.GetManagedFields()
	held := &fieldpath.Set{}
	for _, entry := range entries {
		if isOwn(entry, d.fieldOwner) {
			fields, err := fieldsOf(actual, entry)
			if err != nil {
				return err
			}
			held = held.Union(fields)
		}
	}
	contested := res.DesiredFieldSet.Leaves().Difference(held)
	for _, entry := range entries {
		if isOwn(entry, d.fieldOwner) {
			continue
		}
		if err := res.addManager(actual, entry, contested, ignored); err != nil {
			return err
		}
	}
	return nil
}

func (d *CompareResult) addManager(actual Object, entry metav1.ManagedFieldsEntry, contested, ignored *fieldpath.Set) error {
	fields, err := fieldsOf(actual, entry)
	if err != nil {
		return err
	}
	fields = fields.RecursiveDifference(ignored)
	conflict := fields.Intersection(contested)
	if !conflict.Empty() {
		d.ConflictingMangers = append(d.ConflictingMangers, CompareResultManagedFields{Manager: entry.Manager, Fields: conflict})
	}
	if rest := fields.Difference(conflict); !rest.Empty() {
		d.OtherManagers = append(d.OtherManagers, CompareResultManagedFields{Manager: entry.Manager, Fields: rest})
	}
	return nil
}
