// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/internal/dryrun"
	bctypes "pkg.package-operator.run/boxcutter/machinery/types"
)

// restMapper returns the scope of a kind.
type restMapper interface {
	RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
}

// ObjectValidator checks objects with a dry run.
type ObjectValidator struct {
	restMapper restMapper
	writer     client.Writer
	namespaced bool
	fieldOwner fieldOwner
}

// NewClusterObjectValidator returns a validator for cluster-scoped objects and
// objects in any namespace.
func NewClusterObjectValidator(
	restMapper restMapper,
	writer client.Writer,
) *ObjectValidator {
	return &ObjectValidator{restMapper: restMapper, writer: writer}
}

// NewNamespacedObjectValidator returns a validator for objects that must be in
// the namespace of their owner, if it has one.
func NewNamespacedObjectValidator(
	restMapper restMapper,
	writer client.Writer,
) *ObjectValidator {
	return &ObjectValidator{restMapper: restMapper, writer: writer, namespaced: true}
}

// Validate returns nil, an *ObjectValidationError, or a retryable error of the dry
// run. It does not write and does not modify obj.
//
// The dry run is a server-side apply with force, because the engines decide about
// ownership. If the object does not exist, it is a create.
func (d *ObjectValidator) Validate(
	ctx context.Context,
	obj client.Object,
	opts ...bctypes.ObjectReconcileOption,
) error {
	var options bctypes.ObjectReconcileOptions
	for _, opt := range opts {
		opt.ApplyToObjectReconcileOptions(&options)
	}
	request := dryrun.For(ctx, obj)
	ref := bctypes.ToObjectRef(request.Object)
	if errs := validateIdentity(request.Object); len(errs) > 0 {
		return NewObjectValidationError(ref, errs...)
	}
	finding, err := d.check(ctx, request, options.Owner)
	if err != nil {
		return fmt.Errorf("validating object %s: %w", ref, err)
	}
	return NewObjectValidationError(ref, finding)
}

// check returns a finding about the object, or an error that prevented the check.
func (d *ObjectValidator) check(ctx context.Context, request dryrun.Request, owner client.Object) (finding, err error) {
	if request.Skip && !d.confines(owner) {
		return nil, nil
	}
	if finding, err = d.checkNamespace(request.Object, owner); finding != nil || err != nil || request.Skip || request.Local {
		return finding, err
	}
	return classify(d.dryRun(ctx, request))
}

// confines reports whether an owner's objects must be in its namespace.
func (d *ObjectValidator) confines(owner client.Object) bool {
	return d.namespaced && owner != nil && owner.GetNamespace() != ""
}

// checkNamespace requires a namespace for objects of namespace-scoped kinds, and
// the owner's namespace for objects of a namespaced owner.
func (d *ObjectValidator) checkNamespace(obj, owner client.Object) (finding, err error) {
	confined := d.confines(owner)
	if !confined && (obj.GetNamespace() != "" || d.restMapper == nil) {
		return nil, nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	mapping, err := d.restMapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return classify(err)
	}
	scoped := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case confined && !scoped:
		return MustBeNamespaceScopedResourceError{}, nil
	case confined && obj.GetNamespace() != owner.GetNamespace():
		return MustBeInNamespaceError{ExpectedNamespace: owner.GetNamespace(), ActualNamespace: obj.GetNamespace()}, nil
	case scoped && obj.GetNamespace() == "":
		return field.Required(field.NewPath("metadata", "namespace"), "must be set for objects of this kind"), nil
	}
	return nil, nil
}

func (d *ObjectValidator) dryRun(ctx context.Context, request dryrun.Request) error {
	answer, err := dryrun.Apply(ctx, d.writer, request.Object, d.fieldOwner)
	if err == nil && request.Answered != nil {
		request.Answered(answer)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	desired, err := dryrun.Unstructured(request.Object)
	if err != nil {
		return err
	}
	return d.writer.Create(ctx, desired, client.DryRunAll, client.DisableReadYourWritesConsistency, d.fieldOwner)
}

// fieldOwner is the field manager of a request. If empty, the writer's default
// applies.
type fieldOwner string

const defaultFieldOwner = "boxcutter"

// ApplyToPatch sets the option.
func (o fieldOwner) ApplyToPatch(opts *client.PatchOptions) { o.apply(&opts.FieldManager) }

// ApplyToCreate sets the option.
func (o fieldOwner) ApplyToCreate(opts *client.CreateOptions) { o.apply(&opts.FieldManager) }

func (o fieldOwner) apply(manager *string) {
	if o != "" {
		*manager = string(o)
	} else if *manager == "" {
		*manager = defaultFieldOwner
	}
}

// rejections match the responses that do not change until the object, the served
// kinds or the permissions change. Timeouts, "too many requests" and internal
// server errors are retryable.
var rejections = []func(error) bool{
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

// classify returns a rejection as a finding and any other error unchanged.
func classify(answer error) (finding, err error) {
	for _, is := range rejections {
		if answer != nil && is(answer) {
			return DryRunValidationError{err: answer}, nil
		}
	}
	return nil, answer
}

// isTypedPatchFailure reports whether the object does not match the schema of its
// kind, for example because of an unknown field. The API server responds with status
// 500 without a reason, so only the text distinguishes this from a server failure.
func isTypedPatchFailure(err error) bool {
	return apierrors.ReasonForError(err) == "" && strings.Contains(err.Error(), "failed to create typed patch object")
}
