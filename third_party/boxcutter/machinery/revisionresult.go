// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"
	"slices"
	"strings"

	"pkg.package-operator.run/boxcutter/validation"
)

// RevisionResult is the result for a revision.
type RevisionResult interface {
	// GetValidationError returns the findings that prevented all writes,
	// or nil.
	GetValidationError() *validation.RevisionValidationError
	// GetPhases returns the results of the phases that were reached, in order.
	GetPhases() []PhaseResult
	// InTransition reports whether a phase was not reached yet, or has objects
	// with a collision or of newer revisions.
	InTransition() bool
	// IsComplete reports whether all phases are complete.
	IsComplete() bool
	// HasProgressed reports whether all objects belong to newer revisions.
	HasProgressed() bool
	// String describes the result in several lines.
	String() string
}

// ProgressDeadline is implemented by every RevisionResult of a RevisionEngine. It is
// not part of the original module.
type ProgressDeadline interface {
	// ProgressDeadlineExceeded reports whether the revision is not complete although
	// its deadline has passed, see types.WithProgressDeadline. A revision that has
	// progressed to newer revisions never exceeds its deadline.
	ProgressDeadlineExceeded() bool
}

type revisionResult struct {
	validationError *validation.RevisionValidationError
	// late is true if the progress deadline has passed.
	late bool
	// phases are the names of all phases.
	phases []string
	// reached are the results of the phases that were reached.
	reached []PhaseResult
}

func (r *revisionResult) GetValidationError() *validation.RevisionValidationError {
	return r.validationError
}
func (r *revisionResult) GetPhases() []PhaseResult { return r.reached }

func (r *revisionResult) InTransition() bool {
	if r.validationError != nil {
		return false
	}
	return len(r.reached) < len(r.phases) || slices.ContainsFunc(r.reached, PhaseResult.InTransition)
}

func (r *revisionResult) ProgressDeadlineExceeded() bool {
	return r.late && !r.IsComplete() && !r.HasProgressed()
}

func (r *revisionResult) IsComplete() bool    { return r.every(PhaseResult.IsComplete) }
func (r *revisionResult) HasProgressed() bool { return r.every(PhaseResult.HasProgressed) }

// every reports whether a condition holds for all phases of the revision.
func (r *revisionResult) every(is func(PhaseResult) bool) bool {
	not := func(phase PhaseResult) bool { return !is(phase) }
	return r.validationError == nil && len(r.reached) == len(r.phases) && !slices.ContainsFunc(r.reached, not)
}

func (r *revisionResult) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Revision\nComplete: %t\nIn Transition: %t\n", r.IsComplete(), r.InTransition())
	if r.validationError != nil {
		fmt.Fprintf(&text, "Validation Errors:\n%s", item(r.validationError.String()))
	}
	text.WriteString("Phases:\n")
	for _, phase := range r.reached {
		text.WriteString(item(phase.String()))
	}
	for _, name := range r.phases[len(r.reached):] {
		fmt.Fprintf(&text, "- Phase %q (Pending)\n", name)
	}
	return text.String()
}

// RevisionTeardownResult is the result of the teardown of a revision.
type RevisionTeardownResult interface {
	// GetPhases returns the results of the phases that were reached, the last
	// phase of the revision first.
	GetPhases() []PhaseTeardownResult
	// IsComplete reports whether all phases are gone.
	IsComplete() bool
	// GetWaitingPhaseNames returns the phases that are not reached yet, in the
	// order of the revision.
	GetWaitingPhaseNames() []string
	// GetActivePhaseName returns the phase that is being removed, false if there
	// is none.
	GetActivePhaseName() (string, bool)
	// GetGonePhaseNames returns the phases that are gone, in the order of the
	// revision.
	GetGonePhaseNames() []string
	// String describes the result in several lines.
	String() string
}

type revisionTeardownResult struct {
	phases  []PhaseTeardownResult
	active  string
	waiting []string
	gone    []string
}

func (r *revisionTeardownResult) GetPhases() []PhaseTeardownResult   { return r.phases }
func (r *revisionTeardownResult) GetWaitingPhaseNames() []string     { return r.waiting }
func (r *revisionTeardownResult) GetGonePhaseNames() []string        { return r.gone }
func (r *revisionTeardownResult) GetActivePhaseName() (string, bool) { return r.active, r.active != "" }
func (r *revisionTeardownResult) IsComplete() bool                   { return r.active == "" && len(r.waiting) == 0 }

func (r *revisionTeardownResult) String() string {
	var text strings.Builder
	text.WriteString("Revision Teardown\n")
	if r.active != "" {
		fmt.Fprintf(&text, "Active: %s\n", r.active)
	}
	describeNames(&text, "Waiting Phases", r.waiting)
	describeNames(&text, "Gone Phases", r.gone)
	text.WriteString("Phases:\n")
	for _, phase := range r.phases {
		text.WriteString(item(phase.String()))
	}
	return text.String()
}

func describeNames(text *strings.Builder, title string, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(text, "%s:\n", title)
	for _, name := range names {
		fmt.Fprintf(text, "- %s\n", name)
	}
}
