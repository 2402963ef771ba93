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
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// execute does what was planned.
func (e *ObjectEngine) execute(ctx context.Context, p *plan) (ObjectResult, error) {
	switch p.action {
	case ActionCreated:
		return e.create(ctx, p)
	case ActionCollision:
		return newCollision(p.actual, p.controller, p.options), nil
	case ActionUpdated, ActionRecovered:
		if !p.options.Paused {
			return e.apply(ctx, p)
		}
	default: // nothing is to be written
	}
	return newObjectResult(p.action, p.actual, p.options), nil
}

// create creates the object. It never applies it: an apply would take over an
// object that the cache does not show without a word. What we hold by the create
// counts as ours right away, and is migrated before the first apply.
func (e *ObjectEngine) create(ctx context.Context, p *plan) (ObjectResult, error) {
	created, _ := p.desired.DeepCopyObject().(Object)
	if p.options.Paused && p.awaits {
		return newObjectResult(ActionCreated, created, p.options), nil
	}
	options := []client.CreateOption{client.FieldOwner(e.fieldOwner)}
	if p.options.Paused {
		options = append(options, client.DryRunAll)
	}
	err := e.writer.Create(ctx, created, options...)
	created.GetObjectKind().SetGroupVersionKind(p.desired.GetObjectKind().GroupVersionKind())
	switch {
	case apierrors.IsAlreadyExists(err):
		return e.meet(ctx, p, err)
	case err != nil:
		return nil, fmt.Errorf("creating %s: %w", types.ToObjectRef(p.desired), err)
	case p.options.Paused:
		return newObjectResult(ActionCreated, created, p.options), nil
	}
	e.settle(p.desired, created)
	return newObjectResult(ActionCreated, created, p.options), nil
}

// meet goes on with an object that was to be created and exists already.
func (e *ObjectEngine) meet(ctx context.Context, p *plan, cause error) (ObjectResult, error) {
	if e.unfilteredReader == nil {
		return nil, NewCreateCollisionError(p.desired, cause.Error())
	}
	actual, err := e.read(ctx, e.unfilteredReader, p.desired)
	if err != nil {
		return nil, err
	}
	if actual == nil {
		return nil, fmt.Errorf("creating %s, which was there and is gone again: %w", types.ToObjectRef(p.desired), cause)
	}
	return e.executeAgain(ctx, p, actual)
}

// executeAgain decides anew for an object that turned out to be another than the
// one the plan was made for, or to be gone, and does that.
func (e *ObjectEngine) executeAgain(ctx context.Context, p *plan, actual Object) (ObjectResult, error) {
	again, err := e.replan(p, actual)
	if err != nil {
		return nil, err
	}
	return e.execute(ctx, again)
}

// replan makes the plan anew for an object that was read past the cache, nil when
// there is none.
func (e *ObjectEngine) replan(p *plan, actual Object) (*plan, error) {
	desired, err := e.marked(p.revision, p.source)
	if err != nil {
		return nil, err
	}
	again := &plan{options: p.options, revision: p.revision, source: p.source, desired: desired, actual: actual, live: true}
	return again, e.decide(again)
}

// apply writes the desired fields. When the object is no longer the one that was
// read, which is common for a reader that lags behind our own writes, it is read
// live, if that is possible, and decided anew, once.
func (e *ObjectEngine) apply(ctx context.Context, p *plan) (ObjectResult, error) {
	result, err := e.applyOnce(ctx, p)
	outdated := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	if !outdated || p.live || e.unfilteredReader == nil {
		return result, err
	}
	actual, readErr := e.read(ctx, e.unfilteredReader, p.desired)
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	return e.executeAgain(ctx, p, actual)
}

// applyOnce names the version that was read, so that a change which nobody has
// looked at yet is a conflict and not overwritten.
func (e *ObjectEngine) applyOnce(ctx context.Context, p *plan) (ObjectResult, error) {
	desired, _ := p.desired.DeepCopyObject().(Object)
	config, err := applyConfiguration(desired)
	if err != nil {
		return nil, err
	}
	current, err := e.migrate(ctx, p.actual)
	if err != nil {
		return nil, err
	}
	desired.SetResourceVersion(current.GetResourceVersion())
	action := p.action
	err = e.writer.Apply(ctx, config, e.applyOptions(p.force)...)
	if !p.force && isFieldConflict(err) {
		action = ActionRecovered
		err = e.writer.Apply(ctx, config, e.applyOptions(true)...)
	}
	if err != nil {
		return nil, fmt.Errorf("applying %s: %w", types.ToObjectRef(p.desired), err)
	}
	e.settle(p.desired, desired)
	return newObjectResult(action, desired, p.options), nil
}

func (e *ObjectEngine) applyOptions(force bool) []client.ApplyOption {
	options := []client.ApplyOption{client.FieldOwner(e.fieldOwner)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	return options
}

// applyConfiguration returns what is to be applied for an object. The result of
// an apply is written into the object.
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

// isFieldConflict says whether an apply was refused because somebody else holds
// fields that it would change. Without the object's schema, or with one that is
// out of date, this is not known before.
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

// settle notes what differences are left in an object that was just written.
func (e *ObjectEngine) settle(desired, written Object) {
	result, err := e.comparator.Compare(desired, written)
	if err != nil {
		e.settled.forget(desired)
		return
	}
	e.settled.settle(desired, written, result)
}

// migrate turns what we hold in the object by create or update into what we hold
// by apply, so that fields we no longer want go away when we apply. It returns
// the object as it is then, which is the same one when nothing was to be done.
func (e *ObjectEngine) migrate(ctx context.Context, obj Object) (Object, error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(obj, sets.New(e.fieldOwner), e.fieldOwner)
	if err != nil {
		return nil, fmt.Errorf("migrating the managed fields of %s: %w", types.ToObjectRef(obj), err)
	}
	if patch == nil {
		return obj, nil
	}
	migrated, _ := obj.DeepCopyObject().(Object)
	err = e.writer.Patch(ctx, migrated, client.RawPatch(apitypes.JSONPatchType, patch), client.FieldOwner(e.fieldOwner))
	if err != nil {
		return nil, fmt.Errorf("migrating the managed fields of %s: %w", types.ToObjectRef(obj), err)
	}
	migrated.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return migrated, nil
}
