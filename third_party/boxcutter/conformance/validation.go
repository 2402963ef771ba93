// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"testing"

	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func validationCases() []Case {
	return []Case{
		{"validation/default-is-namespaced", validationNamespaced},
		{"validation/explicit-cluster-validator", validationCluster},
		{"validation/errors-are-pointers", validationPointers},
		{"validation/duplicate-in-phase", validationDuplicate},
		{"validation/phase-name", validationPhaseName},
		{"validation/objects-of-caller", validationCaller},
		{"validation/dry-run-rejection", validationDryRun},
		{"validation/static-metadata", validationStatic},
	}
}

// inOtherNamespace returns an environment with another namespace than the
// owner's.
func (e *Env) inOtherNamespace() *Env {
	other := *e
	other.namespace = "default"
	return &other
}

func validationNamespaced(t *testing.T, e *Env) {
	object := e.inOtherNamespace().configMap(e.namespace, "red")
	result, finding := e.findings(e.revision(1, e.owner("owner"), phase("main", object)))
	var want validation.MustBeInNamespaceError
	if !errors.As(finding, &want) || want.ActualNamespace != "default" || e.get(object) != nil {
		t.Errorf("an object outside of the owner's namespace is not a finding:\n%v\n%s", finding, result)
	}
	if result.IsComplete() || len(e.writes.take()) > 0 {
		t.Errorf("complete or written:\n%s", result)
	}
}

// findings reconciles and returns the findings about the phases. They are part of the
// result, or, up to v0.14.0, an error.
func (e *Env) findings(rev boxcutter.Revision) (machinery.RevisionResult, error) {
	e.Helper()
	result, err := e.engine.Reconcile(e.Context(), rev)
	if isFinding(err) {
		return result, err
	}
	e.must(err)
	for _, phase := range result.GetPhases() {
		if finding := phase.GetValidationError(); finding != nil {
			return result, finding
		}
	}
	return result, nil
}

// isFinding reports whether an error is about a phase or an object that was rejected.
func isFinding(err error) bool {
	_, phase := errors.AsType[*validation.PhaseValidationError](err)
	_, object := errors.AsType[*validation.ObjectValidationError](err)
	_, value := errors.AsType[validation.ObjectValidationError](err)
	return phase || object || value
}

// phaseFindings is findings for the phase engine alone.
func (e *Env) phaseFindings(phase boxcutter.Phase) error {
	e.Helper()
	result, err := e.phaseEngine().Reconcile(e.Context(), 1, phase)
	if isFinding(err) {
		return err
	}
	e.must(err)
	if finding := result.GetValidationError(); finding != nil {
		return finding
	}
	return nil
}

// objects returns the object engine of the options.
func (e *Env) objects(unfiltered client.Reader) *machinery.ObjectEngine {
	comparator := machinery.NewComparator(e.options.DiscoveryClient, e.options.Scheme, fieldOwner)
	return machinery.NewObjectEngine(
		e.options.Scheme, e.options.Reader, e.options.Writer, comparator, fieldOwner, systemPrefix, e.namespace, unfiltered)
}

func validationCluster(_ *testing.T, e *Env) {
	phases := machinery.NewPhaseEngine(e.objects(e.client), validation.NewClusterPhaseValidator(e.mapper, e.client))
	e.engine = machinery.NewRevisionEngine(phases, validation.NewRevisionValidator(), e.client)
	object := e.inOtherNamespace().configMap(e.namespace, "red")
	rev := e.revision(1, e.owner("owner"), phase("main", object))
	e.expect(e.reconcile(rev), machinery.ActionCreated)
	e.eventually("the object is gone", func() bool { return e.teardown(rev).IsComplete() && e.get(object) == nil })
}

func validationPointers(t *testing.T, e *Env) {
	bad := e.configMap("settings", "red")
	bad.SetUID("uid")
	err := validation.NewRevisionValidator().Validate(e.Context(), e.revision(1, nil, phase("main", bad)))
	var revision *validation.RevisionValidationError
	var phase validation.PhaseValidationError
	var object validation.ObjectValidationError
	if !errors.As(err, &revision) || !errors.As(err, &phase) || !errors.As(err, &object) {
		t.Errorf("the outermost error is not a pointer, or those in it are not values: %#v", err)
	}
	var phases *validation.PhaseValidationError
	var objects *validation.ObjectValidationError
	if !errors.As(validation.NewObjectValidationError(types.ObjectRef{}, errors.New("x")), &objects) ||
		!errors.As(validation.NewPhaseValidationError("p", errors.New("x")), &phases) ||
		!errors.As(validation.NewRevisionValidationError("r", 1, validation.PhaseValidationError{}), &revision) {
		t.Error("the constructors do not return pointers")
	}
	if validation.NewObjectValidationError(types.ObjectRef{}) != nil || validation.NewPhaseValidationError("p", nil) != nil || validation.NewRevisionValidationError("r", 1) != nil {
		t.Error("without errors, the constructors do not return nil")
	}
}

// phaseEngine returns a phase engine without a revision engine.
func (e *Env) phaseEngine() *machinery.PhaseEngine {
	return machinery.NewPhaseEngine(e.objects(e.client), validation.NewClusterPhaseValidator(e.mapper, e.client))
}

func validationDuplicate(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	finding := e.phaseFindings(phase("main", settings, settings.DeepCopy()))
	var want validation.PhaseObjectDuplicationError
	if !errors.As(finding, &want) || e.get(settings) != nil {
		t.Errorf("a duplicate is not a finding: %v", finding)
	}
}

func validationPhaseName(t *testing.T, e *Env) {
	for _, objects := range [][]client.Object{nil, {e.configMap("settings", "red")}} {
		finding := e.phaseFindings(boxcutter.NewPhase("Not A Label", objects))
		var want validation.PhaseNameInvalidError
		if !errors.As(finding, &want) {
			t.Errorf("an invalid name of a phase with %d objects is not a finding: %v", len(objects), finding)
		}
	}
}

// recorder is a validator that records the objects of its calls.
type recorder struct{ objects []client.Object }

func (r *recorder) Validate(_ context.Context, phase types.Phase, _ ...types.PhaseReconcileOption) error {
	r.objects = phase.GetObjects()
	return nil
}

func validationCaller(t *testing.T, e *Env) {
	e.create(e.configMap("collides", "blue"))
	objects := []client.Object{e.configMap("collides", "red"), e.configMap("new", "red")}
	validator := &recorder{}
	_, err := machinery.NewPhaseEngine(e.objects(e.client), validator).Reconcile(e.Context(), 1, boxcutter.NewPhase("main", objects))
	e.must(err)
	if len(validator.objects) != 2 || validator.objects[0] != objects[0] || validator.objects[1] != objects[1] {
		t.Errorf("the validator got %v", validator.objects)
	}
}

func validationDryRun(t *testing.T, e *Env) {
	bad := e.configMap("Not_A_Name", "red")
	result, finding := e.findings(e.revision(1, e.owner("owner"), phase("main", e.configMap("good", "red"), bad)))
	var want validation.DryRunValidationError
	if !errors.As(finding, &want) || e.get(e.configMap("good", "")) != nil {
		t.Errorf("a rejected object is not a finding, or others were written: %v\n%s", finding, result)
	}
}

func validationStatic(t *testing.T, e *Env) {
	bad := e.configMap("settings", "red")
	bad.SetFinalizers([]string{"example.com/x"})
	result := e.reconcile(e.revision(1, e.owner("owner"), phase("main", bad), phase("Bad Name", e.configMap("one", "red"))))
	finding := result.GetValidationError()
	if finding == nil || len(finding.Phases) != 2 || result.IsComplete() || result.InTransition() {
		t.Errorf("the findings are %v", finding)
	}
}
