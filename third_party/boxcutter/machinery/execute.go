// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"pkg.package-operator.run/boxcutter/internal/dryrun"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// execute executes the plan.
func (e *ObjectEngine) execute(ctx context.Context, p *plan) (ObjectResult, error) {
	switch p.action {
	case ActionCreated:
		return e.create(ctx, p)
	case ActionUpdated, ActionRecovered:
		if p.perhapsNormalized() && !compat.Original && e.isNormalized(ctx, p) {
			return p.result(ActionIdle, p.actual), nil
		}
		if !p.options.Paused {
			return e.apply(ctx, p)
		}
	default: // nothing to write
	}
	return p.result(p.action, p.actual), nil
}

// create creates the object. An apply would silently take over an existing object
// that is not in the cache. The fields of the create count as applied; they are
// migrated before the first apply.
func (e *ObjectEngine) create(ctx context.Context, p *plan) (ObjectResult, error) {
	created, _ := p.desired.DeepCopyObject().(Object)
	if p.options.Paused && p.awaits && !compat.Original {
		return p.result(ActionCreated, created), nil
	}
	options := []client.CreateOption{client.FieldOwner(e.fieldOwner)}
	if p.options.Paused {
		options = append(options, client.DryRunAll)
	}
	err := e.writer.Create(ctx, created, options...)
	created.GetObjectKind().SetGroupVersionKind(p.desired.GetObjectKind().GroupVersionKind())
	switch {
	case apierrors.IsAlreadyExists(err):
		return e.reconcileExisting(ctx, p, err)
	case err != nil:
		return nil, fmt.Errorf("creating object: %w", err)
	case p.options.Paused:
		return p.result(ActionCreated, created), nil
	}
	if compat.Original { // The original migrates immediately, with a second write.
		if created, err = e.migrate(ctx, created); err != nil {
			return nil, err
		}
	}
	e.recordNormalization(p.desired, created)
	return p.result(ActionCreated, created), nil
}

// reconcileExisting continues with an object that exists although it was not in the
// cache.
func (e *ObjectEngine) reconcileExisting(ctx context.Context, p *plan, cause error) (ObjectResult, error) {
	if e.unfilteredReader == nil {
		return nil, NewCreateCollisionError(p.desired, cause.Error())
	}
	actual, err := e.read(ctx, e.unfilteredReader, p.desired)
	if err != nil {
		return nil, err
	}
	if actual == nil {
		return nil, fmt.Errorf("creating object: already exists, but was deleted before it was read: %w", cause)
	}
	return e.executeReplanned(ctx, p, actual)
}

// executeReplanned plans again with the live object, nil if it does not exist, and
// executes the new plan.
func (e *ObjectEngine) executeReplanned(ctx context.Context, p *plan, actual Object) (ObjectResult, error) {
	again, err := e.replan(p, actual)
	if err != nil {
		return nil, err
	}
	return e.execute(ctx, again)
}

// replan plans again with an object that was read live, nil if it does not exist.
func (e *ObjectEngine) replan(p *plan, actual Object) (*plan, error) {
	desired, err := e.marked(p.revision, p.source)
	if err != nil {
		return nil, err
	}
	again := &plan{options: p.options, revision: p.revision, source: p.source, desired: desired, actual: actual, live: true}
	return again, e.decide(again)
}

// apply writes the desired fields. If the object has changed since it was read, as
// happens when the cache is stale, it is read live and planned again once.
func (e *ObjectEngine) apply(ctx context.Context, p *plan) (ObjectResult, error) {
	result, err := e.applyOnce(ctx, p)
	outdated := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	if !outdated || p.live || !e.readsLive() {
		return result, err
	}
	actual, readErr := e.read(ctx, e.unfilteredReader, p.desired)
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	return e.executeReplanned(ctx, p, actual)
}

// applyOnce applies with the UID and the resource version that were read, so that newer
// changes cause a conflict instead of being overwritten. Without a UID, an apply would
// create an object that was deleted since.
func (e *ObjectEngine) applyOnce(ctx context.Context, p *plan) (ObjectResult, error) {
	if _, err := applyConfiguration(p.desired); err != nil { // before the migration writes
		return nil, err
	}
	current := p.actual
	if e.needsMigration(p) {
		migrated, err := e.migrate(ctx, current)
		if err != nil {
			return nil, err
		}
		current = migrated
	}
	action := p.action
	written, err := e.applyTo(ctx, current, p.desired, e.applyOptions(p.force)...)
	if !p.force && isFieldConflict(err) {
		action = ActionRecovered
		written, err = e.applyTo(ctx, current, p.desired, e.applyOptions(true)...)
	}
	if err != nil {
		return nil, fmt.Errorf("applying object: %w", err)
	}
	e.recordNormalization(p.desired, written)
	return p.result(action, written), nil
}

// applyTo applies the desired fields to an object as it was read, and returns the response.
func (e *ObjectEngine) applyTo(ctx context.Context, current, desired Object, options ...client.ApplyOption) (Object, error) {
	written, _ := desired.DeepCopyObject().(Object)
	config, err := applyConfiguration(written)
	if err != nil {
		return nil, err
	}
	asRead(written, current)
	return written, e.writer.Apply(ctx, config, options...)
}

// asRead makes a write of the object fail if the current object has changed since it was read, or was deleted.
func asRead(obj, current Object) {
	obj.SetUID(current.GetUID())
	obj.SetResourceVersion(current.GetResourceVersion())
}

func (e *ObjectEngine) applyOptions(force bool) []client.ApplyOption {
	options := []client.ApplyOption{client.FieldOwner(e.fieldOwner)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	return options
}

// applyConfiguration returns the apply configuration of an object. The apply stores
// its response in the object.
func applyConfiguration(obj Object) (runtime.ApplyConfiguration, error) {
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		return client.ApplyConfigurationFromUnstructured(obj), nil
	case runtime.ApplyConfiguration:
		return obj, nil
	default:
		return nil, NewUnsupportedApplyConfigurationError(obj)
	}
}

// isFieldConflict reports whether an apply was rejected because another field
// manager owns the fields. The comparator misses this if its schema of the kind
// is missing or outdated.
func isFieldConflict(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			return true
		}
	}
	return false
}

// recordNormalization records the differences that remain after a write.
func (e *ObjectEngine) recordNormalization(desired, written Object) {
	result, err := e.comparator.Compare(desired, written)
	if err != nil {
		e.normalized.forget(desired)
		return
	}
	e.normalized.record(desired, written, result)
}

// isNormalized reports whether a write of the plan would change nothing, because the API
// server normalizes the values that differ, and records that. Without a record, such as after
// a restart, only a dry run can tell a normalized value from a change of another actor: the
// one that has checked the write, or another. If it fails, the write reports the error.
func (e *ObjectEngine) isNormalized(ctx context.Context, p *plan) bool {
	if _, err := applyConfiguration(p.desired); err != nil {
		return false // without a request
	}
	written := p.answer
	if written == nil || e.drops(p, metav1.ManagedFieldsOperationApply) { // the validator can have another field owner, which drops no field
		var err error
		if written, err = e.dryRun(ctx, p); err != nil {
			return false
		}
	}
	if !sameContent(written, p.actual) {
		return false
	}
	e.recordNormalization(p.desired, p.actual)
	return true
}

// dryRun makes a dry run of the write of a plan. It is forced: the fields of a create count as another manager's fields until
// they are migrated.
func (e *ObjectEngine) dryRun(ctx context.Context, p *plan) (*unstructured.Unstructured, error) {
	planned, _ := p.desired.DeepCopyObject().(Object)
	asRead(planned, p.actual)
	return dryrun.Apply(ctx, e.writer, planned, client.FieldOwner(e.fieldOwner))
}

// needsMigration reports whether the managed fields must be migrated before the apply.
// An apply with force takes over the fields that it changes. Only fields that are no
// longer desired would stay, because an apply removes only applied fields.
func (e *ObjectEngine) needsMigration(p *plan) bool {
	return compat.Original || !p.force || e.drops(p, metav1.ManagedFieldsOperationUpdate)
}

// migrate turns the fields that the engine owns through a create or an update
// into applied fields, so that an apply removes the fields that are no longer
// desired. It returns the migrated object, or obj if there is nothing to migrate.
func (e *ObjectEngine) migrate(ctx context.Context, obj Object) (Object, error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(obj, sets.New(e.fieldOwner), e.fieldOwner)
	if err != nil {
		return nil, fmt.Errorf("migrating managed fields: %w", err)
	}
	if patch == nil {
		return obj, nil
	}
	migrated, _ := obj.DeepCopyObject().(Object)
	err = e.writer.Patch(ctx, migrated, client.RawPatch(apitypes.JSONPatchType, patch), client.FieldOwner(e.fieldOwner))
	if err != nil {
		return nil, fmt.Errorf("migrating managed fields: %w", err)
	}
	migrated.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return migrated, nil
}
