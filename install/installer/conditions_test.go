// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"pkg.package-operator.run/boxcutter/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/reason"
)

// objectOutcome is the result of an object.
type objectOutcome struct {
	machinery.ObjectResult
	action           machinery.Action
	object           *unstructured.Unstructured
	complete, paused bool
	probes           types.ProbeResultContainer
	owner            *metav1.OwnerReference // of a collision
}

func (o objectOutcome) Action() machinery.Action                 { return o.action }
func (o objectOutcome) Object() machinery.Object                 { return o.object }
func (o objectOutcome) ProbeResults() types.ProbeResultContainer { return o.probes }
func (o objectOutcome) IsComplete() bool                         { return o.complete }
func (o objectOutcome) IsPaused() bool                           { return o.paused }
func (o objectOutcome) ConflictingOwner() (*metav1.OwnerReference, bool) {
	return o.owner, o.owner != nil
}

// phaseOutcome is the result of a phase.
type phaseOutcome struct {
	machinery.PhaseResult
	name    string
	objects []machinery.ObjectResult
	invalid *validation.PhaseValidationError
}

func (p phaseOutcome) GetName() string                                      { return p.name }
func (p phaseOutcome) GetObjects() []machinery.ObjectResult                 { return p.objects }
func (p phaseOutcome) GetValidationError() *validation.PhaseValidationError { return p.invalid }
func (p phaseOutcome) IsComplete() bool {
	complete := p.invalid == nil
	for _, object := range p.objects {
		complete = complete && object.IsComplete()
	}
	return complete
}

// revisionOutcome is the result of a revision.
type revisionOutcome struct {
	machinery.RevisionResult
	phases  []machinery.PhaseResult
	invalid *validation.RevisionValidationError
	late    bool
}

func (r revisionOutcome) GetPhases() []machinery.PhaseResult { return r.phases }
func (r revisionOutcome) GetValidationError() *validation.RevisionValidationError {
	return r.invalid
}
func (r revisionOutcome) ProgressDeadlineExceeded() bool { return r.late }
func (r revisionOutcome) IsComplete() bool {
	complete := true
	for _, phase := range r.phases {
		complete = complete && phase.IsComplete()
	}
	return complete
}

// onePhase returns the result of a revision with one phase.
func onePhase(objects ...machinery.ObjectResult) revisionOutcome {
	return revisionOutcome{phases: []machinery.PhaseResult{phaseOutcome{name: "core", objects: objects}}}
}

// ready returns the result of an installed object, waiting that of one that is not ready.
func ready(name string) objectOutcome {
	return objectOutcome{action: machinery.ActionIdle, object: settings(name, "red"), complete: true, probes: types.ProbeResultContainer{availableProbe: probing.TrueResult()}}
}

func waiting(name, message string) objectOutcome {
	probes := types.ProbeResultContainer{boxcutter.ProgressProbeType: probing.FalseResult(message), availableProbe: probing.FalseResult(message)}
	return objectOutcome{action: machinery.ActionIdle, object: settings(name, "red"), probes: probes}
}

// collision returns the result of an object of another owner.
func collision(name string, annotations map[string]string) objectOutcome {
	object := settings(name, "red")
	object.SetAnnotations(annotations)
	return objectOutcome{action: machinery.ActionCollision, object: object}
}

// requirement returns the result of a CompatibilityRequirement that is not met.
func requirement() objectOutcome {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": probe.Compatible, "status": "False", "reason": "RequirementsNotMet", "message": "field x"},
	}}}}
	object.SetGroupVersionKind(requirementVersionKind)
	object.SetName("machines.x.io-2")
	return objectOutcome{action: machinery.ActionIdle, object: object}
}

// absentChecker returns the result of a preflight phase whose kind is not served.
func absentChecker() revisionOutcome {
	ref := types.ObjectRef{GroupVersionKind: requirementVersionKind}
	return revisionOutcome{phases: []machinery.PhaseResult{phaseOutcome{name: "preflight", invalid: &validation.PhaseValidationError{
		PhaseName: "preflight", Objects: []validation.ObjectValidationError{{ObjectRef: ref, Errors: []error{&meta.NoKindMatchError{}}}},
	}}}}
}

// absentCheckerAnd adds a phase to the result without a checker.
func absentCheckerAnd(objects ...machinery.ObjectResult) revisionOutcome {
	out := absentChecker()
	out.phases = append(out.phases, phaseOutcome{name: "core", objects: objects})
	return out
}

// forbiddenAnd returns the result of a forbidden phase and of another one.
func forbiddenAnd(objects ...machinery.ObjectResult) revisionOutcome {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New("quota"))
	return revisionOutcome{phases: []machinery.PhaseResult{
		phaseOutcome{name: "first", invalid: &validation.PhaseValidationError{PhaseName: "first", Objects: []validation.ObjectValidationError{{Errors: []error{forbidden}}}}},
		phaseOutcome{name: "core", objects: objects},
	}}
}

// Terminal causes take precedence over retryable errors, and those over a rollout in progress.
func TestOutcomeOf_Precedence(t *testing.T) {
	adoptable := map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}
	failed := errors.New("timeout")
	everything := onePhase(requirement(), collision("theirs", nil), waiting("new", "not ready"))
	everything.late, everything.invalid = true, &validation.RevisionValidationError{RevisionName: "4.22.0-1"}
	late := onePhase(ready("old"), waiting("new", "not ready"))
	late.late = true
	for name, test := range map[string]struct {
		result     machinery.RevisionResult
		err        error
		notAdopted []string
		want       reason.Reason
		message    string // a part of the message or of the error
	}{
		"the engine rejects the revision":      {everything, failed, []string{"x"}, reason.ObjectsRefused, "4.22.0-1"},
		"the API of the checker is not served": {absentChecker(), nil, nil, reason.CheckerAbsent, "unmanaged CRDs: machines.x.io"},
		"no checker and an error":              {absentChecker(), failed, nil, reason.ApplyFailed, "timeout"},
		"no checker and a collision":           {absentCheckerAnd(collision("theirs", nil)), nil, nil, reason.Collision, "ConfigMap theirs"},
		"a forbidden phase and a collision":    {forbiddenAnd(collision("theirs", nil)), nil, nil, reason.Collision, "ConfigMap theirs"},
		"an incompatible CRD and a collision":  {onePhase(requirement(), collision("theirs", nil)), failed, nil, reason.Incompatible, "CustomResourceDefinition machines.x.io (checked by OpenShift, CompatibilityRequirement machines.x.io-2): RequirementsNotMet: field x"},
		"a CRD that is not adopted":            {onePhase(collision("theirs", nil)), failed, []string{"CRD x is not adopted"}, reason.Incompatible, "CRD x is not adopted"},
		"a collision and an error":             {onePhase(collision("theirs", nil)), failed, nil, reason.Collision, "ConfigMap theirs (no owner)"},
		"an adoptable collision and an error":  {onePhase(collision("ours", adoptable)), failed, nil, reason.ApplyFailed, "timeout"},
		"an adoptable collision and no error":  {onePhase(collision("ours", adoptable)), nil, nil, reason.Collision, "ConfigMap ours"},
		"an error after the deadline":          {late, failed, nil, reason.ApplyFailed, "installing version 4.22.0-1: timeout"},
		"no result":                            {nil, failed, nil, reason.ApplyFailed, "timeout"},
		"no progress before the deadline":      {late, nil, nil, reason.ProgressDeadlineExceeded, "phase core 1/2, waiting for ConfigMap new"},
		"an object that is not ready":          {onePhase(ready("old"), waiting("new", "not ready")), nil, nil, reason.RollingOut, "installing 4.22.0-1: phase core 1/2, waiting for ConfigMap new"},
		"all objects are ready":                {onePhase(ready("old")), nil, nil, reason.AsExpected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rev := &loadedRevision{name: "4.22.0-1", unmanaged: []string{"machines.x.io"}, notAdopted: test.notAdopted}
			got := outcomeOf(rev, test.result, test.err)
			text := got.Message
			if got.Err != nil {
				text += got.Err.Error()
			}
			if got.Reason != test.want || !strings.Contains(text, test.message) {
				t.Errorf("got %s: %s, want %s: %s", got.Reason, text, test.want, test.message)
			}
		})
	}
}

func TestAvailable_AllObjects(t *testing.T) {
	for want, result := range map[bool]machinery.RevisionResult{
		true: onePhase(ready("a"), ready("b")), false: onePhase(ready("a"), waiting("b", "not ready"), ready("c")),
	} {
		if got := available(result); got != want {
			t.Errorf("available: %t, want %t", got, want)
		}
	}
}

// A collision names the other owner.
func TestIncompleteReason(t *testing.T) {
	owned := collision("theirs", nil)
	owned.owner = &metav1.OwnerReference{Kind: "Namespace", Name: "other"}
	created := ready("new")
	created.action, created.probes = machinery.ActionCreated, types.ProbeResultContainer{boxcutter.ProgressProbeType: probing.TrueResult()}
	for want, object := range map[string]objectOutcome{
		"exists and is not managed by the installer (owned by Namespace other)": owned,
		"exists and is not managed by the installer (no owner)":                 collision("theirs", nil),
		"1 of 2 replicas": waiting("new", "1 of 2 replicas"),
		"Created":         created,
	} {
		if got := incompleteReason(object); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
