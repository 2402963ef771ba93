// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// This is the only file that uses options which the original boxcutter lacks. Each
// option is detected by its method and used only if it is present, so that the file
// compiles against both modules and the installer is correct without the options.

// EngineOptions are the clients of a revision engine.
type EngineOptions struct {
	// Scheme supplies the kinds of typed objects.
	Scheme *runtime.Scheme
	// Discovery reads the OpenAPI schemas.
	Discovery discovery.OpenAPIV3SchemaInterface
	// Mapper supplies the scope of kinds.
	Mapper meta.RESTMapper
	// Writer writes objects.
	Writer client.Writer
	// Reader reads the installed objects from a cache.
	Reader client.Reader
	// Live reads past the cache.
	Live client.Reader
}

// NewRevisionEngine returns boxcutter's engine with a validator for the whole cluster.
// The default validator would reject objects outside the namespace of their owner.
func NewRevisionEngine(opts EngineOptions) (*boxcutter.RevisionEngine, error) {
	if opts.Writer == nil || opts.Reader == nil || opts.Live == nil {
		return nil, errors.New("creating the revision engine: writer and readers must be set")
	}
	objects := machinery.NewObjectEngine(
		opts.Scheme, opts.Reader, opts.Writer, machinery.NewComparator(opts.Discovery, opts.Scheme, v1alpha1.FieldOwner),
		v1alpha1.FieldOwner, v1alpha1.Prefix, v1alpha1.Prefix, opts.Live,
	)
	phases := machinery.NewPhaseEngine(objects, asFieldOwner(validation.NewClusterPhaseValidator(opts.Mapper, opts.Writer)))
	return machinery.NewRevisionEngine(findingsAsResults{phases}, validation.NewRevisionValidator(), opts.Writer), nil
}

type phaseEngine interface {
	Reconcile(ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption) (machinery.PhaseResult, error)
	Teardown(ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseTeardownOption) (machinery.PhaseTeardownResult, error)
}

// findingsAsResults returns the findings of the dry runs of a phase as its result. boxcutter v0.14.0 returns them as an error.
type findingsAsResults struct{ phaseEngine }

// Reconcile reconciles the phase.
func (e findingsAsResults) Reconcile(ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption) (machinery.PhaseResult, error) {
	result, err := e.phaseEngine.Reconcile(ctx, revision, phase, opts...)
	if finding := findingIn(err, phase.GetName()); finding != nil {
		return findingResult{finding}, nil
	}
	return result, err
}

// findingIn returns the finding about a phase or one of its objects that an error has, or nil.
func findingIn(err error, phase string) *validation.PhaseValidationError {
	if finding, ok := errors.AsType[*validation.PhaseValidationError](err); ok {
		return finding
	}
	var object validation.ObjectValidationError
	if pointer, ok := errors.AsType[*validation.ObjectValidationError](err); ok {
		object = *pointer
	} else if !errors.As(err, &object) {
		return nil
	}
	return &validation.PhaseValidationError{PhaseName: phase, Objects: []validation.ObjectValidationError{object}}
}

// findingResult is the result of a phase of which no object was written.
type findingResult struct {
	finding *validation.PhaseValidationError
}

func (r findingResult) GetName() string                                      { return r.finding.PhaseName }
func (r findingResult) GetValidationError() *validation.PhaseValidationError { return r.finding }
func (r findingResult) GetObjects() []machinery.ObjectResult                 { return nil }
func (r findingResult) InTransition() bool                                   { return false }
func (r findingResult) IsComplete() bool                                     { return false }
func (r findingResult) HasProgressed() bool                                  { return false }
func (r findingResult) String() string                                       { return r.finding.String() }

// asFieldOwner makes the validator use the field owner of the writes for its dry runs,
// if it supports that. Otherwise a dry run reports fields that the write removes.
func asFieldOwner(validator *validation.PhaseValidator) *validation.PhaseValidator {
	if extended, ok := any(validator).(interface {
		WithFieldOwner(name string) *validation.PhaseValidator
	}); ok {
		return extended.WithFieldOwner(v1alpha1.FieldOwner)
	}
	return validator
}

// concurrency is the number of objects of a phase that are written or deleted at
// the same time. As an option for the engine it also disables dry runs whose
// result is not needed. The original boxcutter supports neither and ignores the option.
type concurrency int

// engineOptions is the option that the installer uses.
const engineOptions = concurrency(8)

// ApplyToPhaseReconcileOptions sets it for one phase.
func (c concurrency) ApplyToPhaseReconcileOptions(options *types.PhaseReconcileOptions) {
	c.set(options)
	if extended, ok := any(options).(interface{ SetNoDryRunOfUnchanged(disable bool) }); ok {
		extended.SetNoDryRunOfUnchanged(true)
	}
}

// ApplyToRevisionReconcileOptions sets it for all phases.
func (c concurrency) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, c)
}

// ApplyToPhaseTeardownOptions sets it for one phase.
func (c concurrency) ApplyToPhaseTeardownOptions(options *types.PhaseTeardownOptions) {
	c.set(options)
}

// ApplyToRevisionTeardownOptions sets it for all phases.
func (c concurrency) ApplyToRevisionTeardownOptions(options *types.RevisionTeardownOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, c)
}

// ApplyToObjectReconcileOptions sets it for one object. The original boxcutter ignores the
// option.
func (u unchangedSince) ApplyToObjectReconcileOptions(options *types.ObjectReconcileOptions) {
	if extended, ok := any(options).(interface {
		SetUnchangedSince(unchanged func(obj client.Object, revision int64) bool)
	}); ok {
		extended.SetUnchangedSince(u)
	}
}

// ApplyToPhaseReconcileOptions sets it for all objects of a phase.
func (u unchangedSince) ApplyToPhaseReconcileOptions(options *types.PhaseReconcileOptions) {
	options.DefaultObjectOptions = append(options.DefaultObjectOptions, u)
}

// ApplyToRevisionReconcileOptions sets it for all phases.
func (u unchangedSince) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, u)
}

// progressDeadline is the time by which a rollout must make progress; zero means no
// deadline. The original boxcutter does not support deadlines and ignores the option.
type progressDeadline time.Time

// ApplyToRevisionReconcileOptions sets it.
func (d progressDeadline) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	if extended, ok := any(options).(interface{ SetProgressDeadline(deadline time.Time) }); ok {
		extended.SetProgressDeadline(time.Time(d))
	}
}

// deadlineExceeded reports whether a rollout is not complete after its deadline. It is
// false with the original boxcutter.
func deadlineExceeded(result machinery.RevisionResult) bool {
	extended, ok := result.(interface{ ProgressDeadlineExceeded() bool })
	return ok && extended.ProgressDeadlineExceeded()
}

func (c concurrency) set(options any) {
	if extended, ok := options.(interface{ SetConcurrency(limit int) }); ok {
		extended.SetConcurrency(int(c))
	}
}
