// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bctypes "pkg.package-operator.run/boxcutter/machinery/types"
)

// restMapper tells whether a kind is namespace-scoped.
type restMapper interface {
	RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
}

// ObjectValidator asks the API server whether it would take an object.
type ObjectValidator struct {
	restMapper restMapper
	writer     client.Writer
	namespaced bool
	fieldOwner fieldOwner
}

// NewClusterObjectValidator returns a validator for objects that may be
// anywhere in the cluster.
func NewClusterObjectValidator(
	restMapper restMapper,
	writer client.Writer,
) *ObjectValidator {
	return &ObjectValidator{restMapper: restMapper, writer: writer}
}

// NewNamespacedObjectValidator returns a validator for objects that must be in
// the namespace of their owner, when that has one.
func NewNamespacedObjectValidator(
	restMapper restMapper,
	writer client.Writer,
) *ObjectValidator {
	return &ObjectValidator{restMapper: restMapper, writer: writer, namespaced: true}
}

// WithFieldOwner returns a validator that asks in the name of the given field
// owner, which should be that of the writes to come: what the object would look
// like depends on the fields that its applier holds and does not want any more.
// Without it the writer's own field owner is used, and "boxcutter" when it has none.
func (d *ObjectValidator) WithFieldOwner(name string) *ObjectValidator {
	named := *d
	named.fieldOwner = fieldOwner(name)
	return &named
}

// Validate returns nil, an ObjectValidationError, or an error that kept it from
// asking. Nothing is written, and obj stays as it is.
//
// The question is a server-side apply as a dry-run, with force, for whose the
// object is gets decided elsewhere. Where there is nothing to apply to, it is a
// create.
func (d *ObjectValidator) Validate(
	ctx context.Context,
	obj client.Object,
	opts ...bctypes.ObjectReconcileOption,
) error {
	var options bctypes.ObjectReconcileOptions
	for _, opt := range opts {
		opt.ApplyToObjectReconcileOptions(&options)
	}
	ref := bctypes.ToObjectRef(obj)
	if errs := validateIdentity(obj); len(errs) > 0 {
		return NewObjectValidationError(ref, errs...)
	}
	finding, err := d.check(ctx, obj, options.Owner)
	if err != nil {
		return fmt.Errorf("validating object %s: %w", ref, err)
	}
	return NewObjectValidationError(ref, finding)
}

// check returns what is wrong with the object, or what kept it from looking.
func (d *ObjectValidator) check(ctx context.Context, obj, owner client.Object) (finding, err error) {
	if finding, err = d.checkNamespace(obj, owner); finding != nil || err != nil {
		return finding, err
	}
	return triage(d.dryRun(ctx, obj))
}

// checkNamespace wants objects of namespace-scoped kinds to have a namespace,
// and keeps a namespaced owner from reaching out of its own.
func (d *ObjectValidator) checkNamespace(obj, owner client.Object) (finding, err error) {
	confined := d.namespaced && owner != nil && owner.GetNamespace() != ""
	if !confined && (obj.GetNamespace() != "" || d.restMapper == nil) {
		return nil, nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	mapping, err := d.restMapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return triage(err)
	}
	scoped := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case confined && !scoped:
		return MustBeNamespaceScopedResourceError{}, nil
	case confined && obj.GetNamespace() != owner.GetNamespace():
		return MustBeInNamespaceError{ExpectedNamespace: owner.GetNamespace(), ActualNamespace: obj.GetNamespace()}, nil
	case scoped && obj.GetNamespace() == "":
		return field.Required(field.NewPath("metadata", "namespace"), "objects of this kind have a namespace"), nil
	}
	return nil, nil
}

func (d *ObjectValidator) dryRun(ctx context.Context, obj client.Object) error {
	desired, err := toUnstructured(obj)
	if err != nil {
		return err
	}
	// The client puts the answer into the object it is given: each gets its own.
	// No cache will ever show what a dry-run did, so none must be waited for.
	config := client.ApplyConfigurationFromUnstructured(desired.DeepCopy())
	err = d.writer.Apply(ctx, config,
		client.DryRunAll, client.ForceOwnership, client.DisableReadYourWritesConsistency, d.fieldOwner)
	if apierrors.IsNotFound(err) {
		err = d.writer.Create(ctx, desired,
			client.DryRunAll, client.DisableReadYourWritesConsistency, d.fieldOwner)
	}
	return err
}

// toUnstructured copies any object into the form that can be applied.
func toUnstructured(obj client.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", obj, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// fieldOwner names the field manager of a request. Empty, it leaves that to the
// writer, which has added its own options before.
type fieldOwner string

const defaultFieldOwner = "boxcutter"

// ApplyToApply enters the option.
func (o fieldOwner) ApplyToApply(opts *client.ApplyOptions) { o.apply(&opts.FieldManager) }

// ApplyToCreate enters the option.
func (o fieldOwner) ApplyToCreate(opts *client.CreateOptions) { o.apply(&opts.FieldManager) }

func (o fieldOwner) apply(manager *string) {
	if o != "" {
		*manager = string(o)
	} else if *manager == "" {
		*manager = defaultFieldOwner
	}
}

// refusals are the answers that stay the same until the object, the cluster's
// kinds or somebody's rights are changed. Timeouts, too many requests and
// failures of the server are not among them.
var refusals = []func(error) bool{
	apierrors.IsUnauthorized,
	apierrors.IsForbidden,
	apierrors.IsNotFound,
	apierrors.IsAlreadyExists,
	apierrors.IsConflict,
	apierrors.IsInvalid,
	apierrors.IsBadRequest,
	apierrors.IsMethodNotSupported,
	apierrors.IsNotAcceptable,
	apierrors.IsUnsupportedMediaType,
	apierrors.IsRequestEntityTooLargeError,
	meta.IsNoMatchError,
	isTypedPatchFailure,
}

// triage returns an answer that is a refusal as a finding, and any other as it is.
func triage(answer error) (finding, err error) {
	for _, is := range refusals {
		if answer != nil && is(answer) {
			return DryRunValidationError{err: answer}, nil
		}
	}
	return nil, answer
}

// isTypedPatchFailure recognizes objects that do not fit the schema of their
// kind, such as fields it does not declare. The API server answers them with
// status 500 and no reason, like a failure of its own, so that the text is all
// there is to tell them by.
func isTypedPatchFailure(err error) bool {
	return apierrors.ReasonForError(err) == "" && strings.Contains(err.Error(), "failed to create typed patch object")
}
