// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"
	"slices"
	"strings"

	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PhaseResult is the result for a phase.
type PhaseResult interface {
	// GetName returns the name of the phase.
	GetName() string
	// GetValidationError returns the findings that prevented all writes,
	// or nil.
	GetValidationError() *validation.PhaseValidationError
	// GetObjects returns the results of the objects in the order of the phase.
	// Objects that failed with an error are omitted.
	GetObjects() []ObjectResult
	// InTransition reports whether an object has a collision, or some but not all
	// objects belong to newer revisions.
	InTransition() bool
	// IsComplete reports whether the next phase may start.
	IsComplete() bool
	// HasProgressed reports whether all objects belong to newer revisions.
	HasProgressed() bool
	// String describes the result in several lines.
	String() string
}

type phaseResult struct {
	name            string
	validationError *validation.PhaseValidationError
	objects         []ObjectResult
	// missing is the number of objects without a result because of an error.
	missing int
}

func (r *phaseResult) GetName() string                                      { return r.name }
func (r *phaseResult) GetValidationError() *validation.PhaseValidationError { return r.validationError }
func (r *phaseResult) GetObjects() []ObjectResult                           { return r.objects }

func (r *phaseResult) InTransition() bool {
	if r.validationError != nil || r.HasProgressed() {
		return false
	}
	return slices.ContainsFunc(r.objects, func(object ObjectResult) bool {
		return object.Action() == ActionCollision || object.Action() == ActionProgressed
	})
}

func (r *phaseResult) IsComplete() bool {
	return r.every(ObjectResult.IsComplete)
}

func (r *phaseResult) HasProgressed() bool {
	return r.every(func(object ObjectResult) bool { return object.Action() == ActionProgressed })
}

// every reports whether a condition holds for all objects of the phase.
func (r *phaseResult) every(is func(ObjectResult) bool) bool {
	not := func(object ObjectResult) bool { return !is(object) }
	return r.validationError == nil && r.missing == 0 && !slices.ContainsFunc(r.objects, not)
}

func (r *phaseResult) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Phase %q\nComplete: %t\nIn Transition: %t\n", r.name, r.IsComplete(), r.InTransition())
	if r.validationError != nil {
		fmt.Fprintf(&text, "Validation Errors:\n%s", item(r.validationError.String()))
	}
	text.WriteString("Objects:\n")
	for _, object := range r.objects {
		text.WriteString(item(object.String()))
	}
	return text.String()
}

// item formats a multi-line text as a list item.
func item(text string) string {
	return "- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// PhaseTeardownResult is the result of the teardown of a phase.
type PhaseTeardownResult interface {
	// GetName returns the name of the phase.
	GetName() string
	// IsComplete reports whether all objects are gone.
	IsComplete() bool
	// Gone returns the objects that do not exist or do not belong to the revision.
	Gone() []types.ObjectRef
	// Waiting returns the objects that still exist.
	Waiting() []types.ObjectRef
	// String describes the result in several lines.
	String() string
}

// ReleasedObjects is implemented by every PhaseTeardownResult of a PhaseEngine. It
// is not part of the original module.
type ReleasedObjects interface {
	// Released returns the objects that count as gone and still exist: they have
	// another controller or were orphaned.
	Released() []types.ObjectRef
}

type phaseTeardownResult struct {
	name     string
	gone     []types.ObjectRef // including released
	released []types.ObjectRef
	waiting  []types.ObjectRef
	// missing is the number of objects without an outcome because of an error.
	missing int
}

// add adds the outcome of an object.
func (r *phaseTeardownResult) add(object client.Object, outcome teardownOutcome) {
	r.missing--
	ref := types.ToObjectRef(object)
	if outcome == outcomeWaiting {
		r.waiting = append(r.waiting, ref)
		return
	}
	r.gone = append(r.gone, ref)
	if outcome == outcomeReleased {
		r.released = append(r.released, ref)
	}
}

func (r *phaseTeardownResult) GetName() string             { return r.name }
func (r *phaseTeardownResult) IsComplete() bool            { return len(r.waiting) == 0 && r.missing == 0 }
func (r *phaseTeardownResult) Gone() []types.ObjectRef     { return r.gone }
func (r *phaseTeardownResult) Released() []types.ObjectRef { return r.released }
func (r *phaseTeardownResult) Waiting() []types.ObjectRef  { return r.waiting }

func (r *phaseTeardownResult) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Phase %q\n", r.name)
	describeRefs(&text, "Gone Objects", without(r.gone, r.released))
	describeRefs(&text, "Released Objects", r.released)
	describeRefs(&text, "Waiting Objects", r.waiting)
	return text.String()
}

func without(all, some []types.ObjectRef) []types.ObjectRef {
	return slices.DeleteFunc(slices.Clone(all), func(ref types.ObjectRef) bool { return slices.Contains(some, ref) })
}

func describeRefs(text *strings.Builder, title string, refs []types.ObjectRef) {
	if len(refs) == 0 {
		return
	}
	fmt.Fprintf(text, "%s:\n", title)
	for _, ref := range refs {
		fmt.Fprintf(text, "- %s\n", ref)
	}
}
