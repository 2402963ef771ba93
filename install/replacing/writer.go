// SPDX-License-Identifier: Apache-2.0

// Package replacing has a writer that deletes and creates an object whose immutable field changes.
package replacing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// immutable has the immutable field of each kind whose objects hold no state, so that an object can be replaced instead.
// The selector of a Deployment is not among them: the old pods would end before the new ones start. Nor is the template of
// a Job, because a new Job would run again.
var immutable = map[schema.GroupKind]string{object.RoleBinding: "roleRef", object.ClusterRoleBinding: "roleRef"}

// Writer is a writer that deletes and creates an object if the API server rejects only a change of its immutable field.
// A dry run of such a change succeeds if the deletion is allowed.
type Writer struct {
	client.Writer
	// Live reads from the API server, bypassing the cache.
	Live client.Reader

	mu       sync.Mutex
	replaced []string
}

// Apply applies an object.
func (r *Writer) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	err := r.Writer.Apply(ctx, config, options...)
	desired, isObject := config.(client.Object)
	if !isObject || !Replaces(desired, err) {
		return err
	}
	all := (&client.ApplyOptions{}).ApplyOptions(options)
	return r.replace(ctx, desired, all.DryRun, func() error { return r.Writer.Apply(ctx, config, options...) })
}

// Patch applies a patch. Only one that contains the whole object can replace it.
func (r *Writer) Patch(ctx context.Context, desired client.Object, patch client.Patch, options ...client.PatchOption) error {
	err := r.Writer.Patch(ctx, desired, patch, options...)
	if patch.Type() != types.ApplyPatchType || !Replaces(desired, err) {
		return err
	}
	all := (&client.PatchOptions{}).ApplyOptions(options)
	return r.replace(ctx, desired, all.DryRun, func() error { return r.Writer.Patch(ctx, desired, patch, options...) })
}

// Replaces reports whether the writer replaces an object, because the API server rejects only its immutable field with this error.
func Replaces(desired client.Object, err error) bool {
	field, replaceable := immutable[desired.GetObjectKind().GroupVersionKind().GroupKind()]
	causes := InvalidFields(err)
	return replaceable && len(causes) > 0 && !slices.ContainsFunc(causes, func(cause metav1.StatusCause) bool { return cause.Field != field })
}

// InvalidFields returns the fields that the API server rejects as invalid with an error.
func InvalidFields(err error) []metav1.StatusCause {
	rejected, isStatus := errors.AsType[*apierrors.StatusError](err)
	if !isStatus || !apierrors.IsInvalid(err) || rejected.Status().Details == nil {
		return nil
	}
	return rejected.Status().Details.Causes
}

// replace deletes the object that has the name of the desired one, and applies the latter again.
func (r *Writer) replace(ctx context.Context, desired client.Object, dryRun []string, apply func() error) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(desired.GetObjectKind().GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(desired), live); err != nil {
		return fmt.Errorf("reading the object to replace: %w", err)
	}
	err := r.Writer.Delete(ctx, live, &client.DeleteOptions{DryRun: dryRun}, client.Preconditions(object.AsRead(live)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the object to replace: %w", err)
	}
	if len(dryRun) > 0 {
		return nil
	}
	r.mu.Lock()
	r.replaced = append(r.replaced, object.Describe(desired))
	r.mu.Unlock()
	desired.SetUID("")
	desired.SetResourceVersion("")
	return apply()
}

// Events reports the objects that were replaced since the last call. A nil writer has replaced none.
func (r *Writer) Events(version string) []status.Event {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.replaced) == 0 {
		return nil
	}
	slices.Sort(r.replaced)
	message := fmt.Sprintf("version %s replaced objects with a changed immutable field: %s", version, strings.Join(r.replaced, ", "))
	r.replaced = nil
	return []status.Event{{Reason: status.ObjectsReplaced, Message: message}}
}
