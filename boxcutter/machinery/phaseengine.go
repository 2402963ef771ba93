// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectEngine handles single objects.
type objectEngine interface {
	Reconcile(
		ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectReconcileOption,
	) (ObjectResult, error)
	Teardown(
		ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectTeardownOption,
	) (objectGone bool, err error)
}

// planner is an objectEngine that can tell what it would do before it does it.
type planner interface {
	plan(
		ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectReconcileOption,
	) (*plan, error)
	execute(ctx context.Context, p *plan) (ObjectResult, error)
	// review looks into the refusal of what is planned.
	review(ctx context.Context, p *plan) (verdict, error)
}

// phaseValidator finds out whether the API server would take all objects.
type phaseValidator interface {
	Validate(ctx context.Context, phase types.Phase, opts ...types.PhaseReconcileOption) error
}

// remover is an objectEngine that tells what has become of an object.
type remover interface {
	tearDown(
		ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectTeardownOption,
	) (fate, error)
}

// PhaseEngine reconciles and tears down phases.
type PhaseEngine struct {
	objectEngine   objectEngine
	phaseValidator phaseValidator
}

// NewPhaseEngine makes an engine that has its objects handled by objectEngine
// and, unless it is nil, the objects of a phase checked by phaseValidator before
// any of them is written.
//
// A validator may ask the API server about each object. With an ObjectEngine it
// is therefore shown only those objects that are going to be written or stay as
// they are, in the form in which they will be, and is not called when there are
// none. On request (types.WithoutDryRunOfUnchanged) those that stay are left out.
func NewPhaseEngine(
	objectEngine objectEngine,
	phaseValidator phaseValidator,
) *PhaseEngine {
	return &PhaseEngine{objectEngine: objectEngine, phaseValidator: phaseValidator}
}

// PhaseObject is an object with options of its own.
type PhaseObject struct {
	// Object is what is desired.
	Object *unstructured.Unstructured
	// Opts hold for this object.
	Opts []types.ObjectReconcileOption
}

// step is one object of a phase that is being reconciled.
type step struct {
	object Object
	opts   []types.ObjectReconcileOption
	// plan is what is going to be done, nil when that could not be told before.
	plan *plan
}

// Reconcile takes one step with each object of the phase, in their order. Options
// are those given and then those of the phase.
//
// What a validator finds is part of the result, and nothing is written then. The
// first error of an object ends the step, unless errors are to be aggregated: then
// all objects are tried and their errors joined, but for "too many requests",
// which ends it at once. On request (types.WithConcurrency) neighbours of the same
// kind are written at the same time. The result is there also with an error, as
// far as it goes.
func (e *PhaseEngine) Reconcile(
	ctx context.Context,
	revision int64,
	phase types.Phase,
	opts ...types.PhaseReconcileOption,
) (PhaseResult, error) {
	var options types.PhaseReconcileOptions
	for _, opt := range slices.Concat(opts, phase.GetReconcileOptions()) {
		opt.ApplyToPhaseReconcileOptions(&options)
	}
	steps := e.steps(ctx, revision, phase, options)
	result := &phaseResult{name: phase.GetName(), missing: len(steps)}
	if err := e.validate(ctx, phase, steps, !options.NoDryRunOfUnchanged, opts); err != nil {
		if result.validationError = asPointer[validation.PhaseValidationError](err); result.validationError != nil {
			return result, nil //nolint:nilerr // a validation error is a result
		}
		return result, err
	}
	return result, e.take(ctx, revision, steps, pace{options.Concurrency, options.AggregateErrors}, result)
}

// steps plans all objects. An error in planning is not looked at here: whatever
// it is, it comes again when the object's turn comes.
func (e *PhaseEngine) steps(
	ctx context.Context, revision int64, phase types.Phase, options types.PhaseReconcileOptions,
) []step {
	planner, plans := e.objectEngine.(planner)
	steps := make([]step, len(phase.GetObjects()))
	for i, object := range phase.GetObjects() {
		steps[i] = step{object: object, opts: options.ForObject(object)}
		if !plans {
			continue
		}
		if plan, err := planner.plan(ctx, revision, object, steps[i].opts...); err == nil {
			steps[i].plan = plan
		}
	}
	prerequisitesOf(steps).mark(steps)
	return steps
}

// reviews is how often a validator's finding is reconsidered.
const reviews = 2

// validate shows the validator what is going to be written and, if it is asked
// about all, what is as it should be. What is left to somebody else is not ours
// to ask about.
func (e *PhaseEngine) validate(
	ctx context.Context, phase types.Phase, steps []step, all bool, opts []types.PhaseReconcileOption,
) error {
	for review := 0; e.phaseValidator != nil; review++ {
		objects := toValidate(steps, all)
		if len(objects) == 0 {
			return nil
		}
		written := types.NewPhase(phase.GetName(), objects).WithReconcileOptions(phase.GetReconcileOptions()...)
		finding := e.phaseValidator.Validate(ctx, written, opts...)
		if review == reviews {
			return finding
		}
		if again, err := e.reconsider(ctx, steps, finding); !again {
			return err
		}
	}
	return nil
}

func toValidate(steps []step, all bool) []client.Object {
	var objects []client.Object
	for _, step := range steps {
		switch {
		case step.plan == nil:
			objects = append(objects, step.object)
		case (step.plan.writes() || all && step.plan.action == ActionIdle) && !step.plan.awaits:
			objects = append(objects, step.plan.desired)
		}
	}
	return objects
}

// take takes all steps and adds what comes of them to the result.
func (e *PhaseEngine) take(
	ctx context.Context, revision int64, steps []step, pace pace, result *phaseResult,
) error {
	done := func(_ step, object ObjectResult) {
		result.objects = append(result.objects, object)
		result.missing--
	}
	return each(steps, pace, step.kind, done, func(step step) (ObjectResult, error) {
		return e.takeOne(ctx, revision, step)
	})
}

// kind is the kind of the object, as far as it is known.
func (s step) kind() schema.GroupVersionKind {
	if s.plan != nil {
		return kindOf(s.plan.desired)
	}
	return kindOf(s.object)
}

func kindOf(obj client.Object) schema.GroupVersionKind { return obj.GetObjectKind().GroupVersionKind() }

func (e *PhaseEngine) takeOne(ctx context.Context, revision int64, step step) (ObjectResult, error) {
	if planner, plans := e.objectEngine.(planner); plans && step.plan != nil {
		return planner.execute(ctx, step.plan)
	}
	return e.objectEngine.Reconcile(ctx, revision, step.object, step.opts...)
}

// Teardown takes one step to remove each object of the phase, the last one
// first. Options are those given and then those of the phase. Errors, and
// neighbours of the same kind, are treated as by Reconcile.
func (e *PhaseEngine) Teardown(
	ctx context.Context,
	revision int64,
	phase types.Phase,
	opts ...types.PhaseTeardownOption,
) (PhaseTeardownResult, error) {
	var options types.PhaseTeardownOptions
	for _, opt := range slices.Concat(opts, phase.GetTeardownOptions()) {
		opt.ApplyToPhaseTeardownOptions(&options)
	}
	result := &phaseTeardownResult{name: phase.GetName(), missing: len(phase.GetObjects())}
	pace := pace{options.Concurrency, options.AggregateErrors}
	backwards := slices.Clone(phase.GetObjects())
	slices.Reverse(backwards)
	err := each(backwards, pace, kindOf, result.add, func(object client.Object) (fate, error) {
		return e.tearDownOne(ctx, revision, object, options.ForObject(object))
	})
	for _, refs := range [][]types.ObjectRef{result.gone, result.released, result.waiting} {
		slices.Reverse(refs)
	}
	return result, err
}

func (e *PhaseEngine) tearDownOne(
	ctx context.Context, revision int64, object client.Object, opts []types.ObjectTeardownOption,
) (fate, error) {
	if remover, tells := e.objectEngine.(remover); tells {
		return remover.tearDown(ctx, revision, object, opts...)
	}
	if isGone, err := e.objectEngine.Teardown(ctx, revision, object, opts...); err != nil || !isGone {
		return waiting, err
	}
	return gone, nil
}

// asPointer returns the error of a type that is in an error's tree, be it there
// as a value or as a pointer, nil when there is none.
func asPointer[E error, P interface {
	*E
	error
}](err error) *E {
	if value, ok := errors.AsType[E](err); ok {
		return &value
	}
	pointer, _ := errors.AsType[P](err)
	return pointer
}
