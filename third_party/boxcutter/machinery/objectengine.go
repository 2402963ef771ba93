// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	managedByLabel   = "app.kubernetes.io/managed-by"
	defaultManagedBy = "boxcutter"
)

// comparator compares a desired object with the actual one.
type comparator interface {
	Compare(desiredObject, actualObject Object, opts ...types.ComparatorOption) (CompareResult, error)
}

// ObjectEngine reconciles and tears down single objects.
type ObjectEngine struct {
	scheme           *runtime.Scheme
	cache            client.Reader
	writer           client.Writer
	comparator       comparator
	fieldOwner       string
	systemPrefix     string
	managedBy        string
	unfilteredReader client.Reader
	normalized       *normalizations
}

// NewObjectEngine returns an engine.
//
// Objects are read from cache. It may be filtered by the managed-by label. If
// unfilteredReader is not nil, it reads objects that are not in the cache. Writes go
// to writer with the field manager fieldOwner. systemPrefix is the prefix of the
// revision annotation; managedBy is the value of the managed-by label, "boxcutter"
// if empty.
func NewObjectEngine(
	scheme *runtime.Scheme,
	cache client.Reader,
	writer client.Writer,
	comparator comparator,

	fieldOwner string,
	systemPrefix string,
	managedBy string,

	unfilteredReader client.Reader,
) *ObjectEngine {
	if managedBy == "" {
		managedBy = defaultManagedBy
	}
	return &ObjectEngine{
		scheme: scheme, cache: cache, writer: writer, comparator: comparator,
		fieldOwner: fieldOwner, systemPrefix: systemPrefix, managedBy: managedBy,
		unfilteredReader: unfilteredReader,
		normalized:       &normalizations{},
	}
}

// Reconcile takes one step to create, adopt or update the object for the revision,
// whose number is 1 or more.
//
// A collision with another owner is a result. Errors are *MisuseError,
// *CreateCollisionError, *UnsupportedApplyConfigurationError and errors of the
// API server.
func (e *ObjectEngine) Reconcile(
	ctx context.Context,
	revision int64,
	desiredObject Object,
	opts ...types.ObjectReconcileOption,
) (ObjectResult, error) {
	plan, err := e.plan(ctx, revision, desiredObject, opts...)
	if err != nil {
		return nil, err
	}
	return e.execute(ctx, plan)
}

func reconcileOptions(obj Object, opts []types.ObjectReconcileOption) (types.ObjectReconcileOptions, error) {
	var options types.ObjectReconcileOptions
	for _, opt := range opts {
		opt.ApplyToObjectReconcileOptions(&options)
	}
	options.Default()
	if options.Owner != nil && options.OwnerStrategy == nil {
		return options, misuse(obj, "OwnerStrategy must be set if Owner is set")
	}
	return options, nil
}

// marked returns a copy of the object with the managed-by label and the revision
// annotation.
func (e *ObjectEngine) marked(revision int64, obj Object) (Object, error) {
	kind, err := apiutil.GVKForObject(obj, e.scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", types.ToObjectRef(obj), err)
	}
	out, ok := obj.DeepCopyObject().(Object)
	if !ok {
		return nil, misuse(obj, "unsupported object type %T: DeepCopyObject must return an object", obj)
	}
	out.GetObjectKind().SetGroupVersionKind(kind)
	convertStringData(out)
	out.SetLabels(with(out.GetLabels(), managedByLabel, e.managedBy))
	out.SetAnnotations(with(out.GetAnnotations(), e.revisionAnnotation(), strconv.FormatInt(revision, 10)))
	return out, nil
}

func with(values map[string]string, key, value string) map[string]string {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

func (e *ObjectEngine) revisionAnnotation() string { return e.systemPrefix + "/revision" }

// revisionOf returns the number in the revision annotation, and reports whether
// the object has the annotation.
func (e *ObjectEngine) revisionOf(obj Object) (number int64, marked bool, err error) {
	text, marked := obj.GetAnnotations()[e.revisionAnnotation()]
	if !marked {
		return 0, false, nil
	}
	number, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, true, fmt.Errorf("reading annotation %s of %s: %w; correct or remove the annotation", e.revisionAnnotation(), types.ToObjectRef(obj), err)
	}
	return number, true, nil
}

// read returns the live or cached object with the kind and name of like, or nil if
// the object or its kind does not exist.
func (e *ObjectEngine) read(ctx context.Context, reader client.Reader, like Object) (Object, error) {
	kind := like.GetObjectKind().GroupVersionKind()
	actual, ok := reflect.New(reflect.TypeOf(like).Elem()).Interface().(Object)
	if !ok {
		return nil, misuse(like, "unsupported object type %T: DeepCopyObject must return an object", like)
	}
	actual.GetObjectKind().SetGroupVersionKind(kind)
	err := reader.Get(ctx, client.ObjectKeyFromObject(like), actual, client.UnsafeDisableDeepCopy) // the object is not changed
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", types.ToObjectRef(like), err)
	}
	if kindOf(actual) != kind { // of a typed object
		actual.GetObjectKind().SetGroupVersionKind(kind)
	}
	return actual, nil
}

// absent reports whether an error means that the object or its kind does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
