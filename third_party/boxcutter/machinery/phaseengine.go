// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"pkg.package-operator.run/boxcutter/internal/dryrun"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectEngine reconciles and tears down single objects.
type objectEngine interface {
	Reconcile(
		ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectReconcileOption,
	) (ObjectResult, error)
	Teardown(
		ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectTeardownOption,
	) (objectGone bool, err error)
}

// phaseValidator checks the objects of a phase before any of them is written.
type phaseValidator interface {
	Validate(ctx context.Context, phase types.Phase, opts ...types.PhaseReconcileOption) error
}

// PhaseEngine reconciles and tears down phases.
type PhaseEngine struct {
	objectEngine   objectEngine
	phaseValidator phaseValidator
	// planner is objectEngine if it is an *ObjectEngine, else nil. A type that
	// embeds *ObjectEngine may override Reconcile and Teardown; planning would
	// bypass them.
	planner *ObjectEngine
}

// NewPhaseEngine returns an engine that calls objectEngine for each object and,
// unless it is nil, phaseValidator before any object of a phase is written.
//
// The validator is called with the caller's phase at every reconcile. With an
// *ObjectEngine, the validators of package validation make the dry run with the
// exact objects that are going to be written.
func NewPhaseEngine(
	objectEngine objectEngine,
	phaseValidator phaseValidator,
) *PhaseEngine {
	planner, _ := objectEngine.(*ObjectEngine)
	return &PhaseEngine{objectEngine: objectEngine, phaseValidator: phaseValidator, planner: planner}
}

// PhaseObject is an object with its own options.
type PhaseObject struct {
	// Object is the desired object.
	Object *unstructured.Unstructured
	// Opts are the options of this object.
	Opts []types.ObjectReconcileOption
}

// step is one object of a phase during a reconcile.
type step struct {
	object Object
	opts   []types.ObjectReconcileOption
	// plan is the planned action, nil if the object could not be planned.
	plan *plan
}

// Reconcile takes one step for each object of the phase, in order. The given
// options apply before the options of the phase.
//
// If the validator has findings, they are part of the result and nothing is written.
// The first error of an object ends the step. If errors are aggregated, all objects
// are tried and their errors joined; only "too many requests" ends the step
// immediately. With an error, the result has the objects that were reconciled.
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
	run := phaseRun{engine: e, revision: revision, phase: phase, opts: opts, options: options}
	run.steps = e.steps(ctx, revision, phase, options)
	result := &phaseResult{name: phase.GetName(), missing: len(run.steps)}
	return result, run.reconcile(ctx, result)
}

// steps plans all objects. It ignores errors, because they recur when the object
// is reconciled.
func (e *PhaseEngine) steps(
	ctx context.Context, revision int64, phase types.Phase, options types.PhaseReconcileOptions,
) []step {
	steps := make([]step, len(phase.GetObjects()))
	for i, object := range phase.GetObjects() {
		steps[i] = step{object: object, opts: options.ForObject(object)}
		if e.planner == nil {
			continue
		}
		if plan, err := e.planner.plan(ctx, revision, object, steps[i].opts...); err == nil {
			steps[i].plan = plan
		}
	}
	prerequisitesOf(steps).mark(steps)
	return steps
}

// maxReviews is the maximum number of times that findings are reviewed.
const maxReviews = 2

// validate calls the validator with the caller's phase. The selected objects get a dry
// run.
func (e *PhaseEngine) validate(
	ctx context.Context, phase types.Phase, steps []step, selected func(*plan) bool, opts []types.PhaseReconcileOption,
) error {
	if e.phaseValidator == nil {
		return nil
	}
	if compat.Original {
		return e.phaseValidator.Validate(ctx, phase, opts...)
	}
	for review := 0; ; review++ {
		finding := e.phaseValidator.Validate(dryrun.With(ctx, e.dryRuns(steps, selected)), phase, opts...)
		if review == maxReviews {
			return finding
		}
		if again, err := e.reviewFindings(ctx, steps, finding); !again {
			return err
		}
	}
}

// dryRuns returns the dry run requests of a phase. The dry run of an object that is
// going to be written sends the same content as the write. An object whose
// namespace or kind is created by the same phase is skipped, because the API server
// cannot check it yet, and so is an object that could not be planned: the dry run
// would judge an object that was not prepared for the write.
func (e *PhaseEngine) dryRuns(steps []step, selected func(*plan) bool) map[types.ObjectRef]dryrun.Request {
	requests := make(map[types.ObjectRef]dryrun.Request, len(steps))
	for _, step := range steps {
		if step.plan == nil {
			requests[types.ToObjectRef(step.object)] = dryrun.Request{Skip: e.planner != nil}
			continue
		}
		request := dryrun.Request{
			Local:    !selected(step.plan),
			Answered: func(answer *unstructured.Unstructured) { step.plan.answer = answer },
		}
		request.Skip = step.plan.awaits || request.Local && !step.plan.writes()
		if step.plan.writes() || step.plan.action == ActionIdle {
			request.Object = step.plan.desired
		}
		requests[types.ToObjectRef(step.object)] = request
	}
	return requests
}

// reconcileObjects reconciles all objects and adds their results.
func (e *PhaseEngine) reconcileObjects(
	ctx context.Context, revision int64, steps []step, iteration iteration, result *phaseResult,
) error {
	done := func(_ step, object ObjectResult) {
		result.objects = append(result.objects, object)
		result.missing--
	}
	return forEach(steps, iteration, step.kind, done, func(step step) (ObjectResult, error) {
		object, err := e.reconcileObject(ctx, revision, step)
		if err != nil {
			return nil, fmt.Errorf("reconciling %s: %w", types.ToObjectRef(step.object), err)
		}
		return object, nil
	})
}

// kind returns the kind of the object, empty if unknown.
func (s step) kind() schema.GroupVersionKind {
	if s.plan != nil {
		return kindOf(s.plan.desired)
	}
	return kindOf(s.object)
}

func kindOf(obj client.Object) schema.GroupVersionKind { return obj.GetObjectKind().GroupVersionKind() }

func (e *PhaseEngine) reconcileObject(ctx context.Context, revision int64, step step) (ObjectResult, error) {
	if step.plan != nil {
		object, err := e.planner.execute(ctx, step.plan)
		step.plan.failed = err != nil
		return object, err
	}
	return e.objectEngine.Reconcile(ctx, revision, step.object, step.opts...)
}

// Teardown takes one step to remove each object of the phase, in order. The given
// options apply before the options of the phase. Errors are handled as in
// Reconcile.
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
	iteration := iteration{options.Concurrency, options.AggregateErrors}
	err := forEach(phase.GetObjects(), iteration, kindOf, result.add, func(object client.Object) (teardownOutcome, error) {
		return e.teardownObject(ctx, revision, object, options.ForObject(object))
	})
	return result, err
}

func (e *PhaseEngine) teardownObject(
	ctx context.Context, revision int64, object client.Object, opts []types.ObjectTeardownOption,
) (teardownOutcome, error) {
	if e.planner != nil {
		return e.planner.teardown(ctx, revision, object, opts...)
	}
	isGone, err := e.objectEngine.Teardown(ctx, revision, object, opts...)
	switch {
	case err != nil:
		return outcomeWaiting, fmt.Errorf("tearing down %s: %w", types.ToObjectRef(object), err)
	case !isGone:
		return outcomeWaiting, nil
	}
	return outcomeGone, nil
}
