// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

// ObjectValidationError holds the findings about one object.
type ObjectValidationError struct {
	// ObjectRef names the object.
	ObjectRef types.ObjectRef
	// Errors are the findings.
	Errors []error
}

// NewObjectValidationError returns an *ObjectValidationError with the non-nil
// errors, or nil if there are none.
func NewObjectValidationError(
	objRef types.ObjectRef,
	errs ...error,
) error {
	errs = withoutNil(errs)
	if len(errs) == 0 {
		return nil
	}
	return &ObjectValidationError{ObjectRef: objRef, Errors: errs}
}

// String returns the findings as text with one line per error.
func (e ObjectValidationError) String() string {
	return report(e.ObjectRef.String(), texts(e.Errors, error.Error))
}

// Error returns the findings in one line.
func (e ObjectValidationError) Error() string {
	return line(e.ObjectRef.String(), e.Errors)
}

// Unwrap returns the findings.
func (e ObjectValidationError) Unwrap() []error { return e.Errors }

// As finds the error for errors.As both as a value and as a pointer.
func (e ObjectValidationError) As(target any) bool { return as(e, target) }

// PhaseValidationError holds the findings about one phase and its objects.
type PhaseValidationError struct {
	// PhaseName is the name of the phase.
	PhaseName string
	// PhaseError is the finding about the phase itself, or nil.
	PhaseError error
	// Objects are the objects with errors, in the order of the phase.
	Objects []ObjectValidationError
}

// NewPhaseValidationError returns a *PhaseValidationError, or nil if there are no
// findings.
func NewPhaseValidationError(
	phaseName string, phaseErr error, oErrs ...ObjectValidationError,
) error {
	if phaseErr == nil && len(oErrs) == 0 {
		return nil
	}
	return &PhaseValidationError{PhaseName: phaseName, PhaseError: phaseErr, Objects: oErrs}
}

// String returns the findings as text with one line per error.
func (e PhaseValidationError) String() string {
	items := texts(withoutNil([]error{e.PhaseError}), error.Error)
	return report(e.title(), append(items, texts(e.Objects, ObjectValidationError.String)...))
}

// Error returns the findings in one line.
func (e PhaseValidationError) Error() string { return line(e.title(), e.Unwrap()) }

// Unwrap returns the error of the phase and the errors of its objects, as values.
func (e PhaseValidationError) Unwrap() []error {
	return append(withoutNil([]error{e.PhaseError}), asErrors(e.Objects)...)
}

// As finds the error for errors.As both as a value and as a pointer.
func (e PhaseValidationError) As(target any) bool { return as(e, target) }

func (e PhaseValidationError) title() string { return fmt.Sprintf("phase %q", e.PhaseName) }

// RevisionValidationError holds the findings about one revision and its phases.
type RevisionValidationError struct {
	// RevisionName is the name of the revision.
	RevisionName string
	// RevisionNumber is the number of the revision.
	RevisionNumber int64
	// Phases are the phases with errors, in the order of the revision.
	Phases []PhaseValidationError
}

// NewRevisionValidationError returns a *RevisionValidationError, or nil if there
// are no findings.
func NewRevisionValidationError(
	revisionName string, revisionNumber int64,
	phaseErrs ...PhaseValidationError,
) error {
	if len(phaseErrs) == 0 {
		return nil
	}
	return &RevisionValidationError{RevisionName: revisionName, RevisionNumber: revisionNumber, Phases: phaseErrs}
}

// String returns the findings as text with one line per error.
func (e RevisionValidationError) String() string {
	return report(e.title(), texts(e.Phases, PhaseValidationError.String))
}

// Error returns the findings in one line.
func (e RevisionValidationError) Error() string { return line(e.title(), e.Unwrap()) }

// Unwrap returns the errors of the phases, as values.
func (e RevisionValidationError) Unwrap() []error { return asErrors(e.Phases) }

// As finds the error for errors.As both as a value and as a pointer.
func (e RevisionValidationError) As(target any) bool { return as(e, target) }

func (e RevisionValidationError) title() string {
	return fmt.Sprintf("revision %q (%d)", e.RevisionName, e.RevisionNumber)
}

// PhaseNameInvalidError reports a phase name that is not a DNS-1035 label.
type PhaseNameInvalidError struct {
	// PhaseName is the invalid name.
	PhaseName string
	// ErrorMessages are the violated rules.
	ErrorMessages []string
}

// Error names the phase and the rules.
func (e PhaseNameInvalidError) Error() string {
	return fmt.Sprintf("invalid phase name %q: %s", e.PhaseName, strings.Join(e.ErrorMessages, ", "))
}

// PhaseObjectDuplicationError reports an object that occurs more than once.
type PhaseObjectDuplicationError struct {
	// PhaseNames are the phases of the object, sorted and unique.
	PhaseNames []string
}

// Error names the phases.
func (e PhaseObjectDuplicationError) Error() string {
	if len(e.PhaseNames) == 1 {
		return fmt.Sprintf("object occurs more than once in phase %q", e.PhaseNames[0])
	}
	return fmt.Sprintf("object occurs in more than one phase: %s", strings.Join(e.PhaseNames, ", "))
}

// MustBeNamespaceScopedResourceError reports a cluster-scoped object of a namespaced
// owner.
type MustBeNamespaceScopedResourceError struct{}

// Error describes the requirement.
func (e MustBeNamespaceScopedResourceError) Error() string {
	return "object must be namespace-scoped, because its owner is namespaced"
}

// MustBeInNamespaceError reports an object outside of its owner's namespace.
type MustBeInNamespaceError struct {
	// ExpectedNamespace is the owner's namespace, ActualNamespace the object's.
	ExpectedNamespace, ActualNamespace string
}

// Error names both namespaces.
func (e MustBeInNamespaceError) Error() string {
	return fmt.Sprintf("object must be in its owner's namespace %q, but is in %q", e.ExpectedNamespace, e.ActualNamespace)
}

// DryRunValidationError reports an object that the API server rejects. It wraps the
// response, so that errors.As finds the API status with its causes.
type DryRunValidationError struct {
	err error
}

// Error returns the response of the API server.
func (e DryRunValidationError) Error() string { return "dry-run: " + e.err.Error() }

// Unwrap returns the response of the API server.
func (e DryRunValidationError) Unwrap() error { return e.err }

func withoutNil(errs []error) []error {
	return slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
}

func asErrors[E error](errs []E) []error {
	out := make([]error, len(errs))
	for i := range errs {
		out[i] = errs[i]
	}
	return out
}

// as sets the target if it is for errors of type E. The constructors return pointers, and the errors in their fields
// are values.
func as[E error](err E, target any) bool {
	switch target := target.(type) {
	case *E:
		*target = err
	case **E:
		*target = &err
	default:
		return false
	}
	return true
}

func texts[E error](errs []E, text func(E) string) []string {
	out := make([]string, len(errs))
	for i, err := range errs {
		out[i] = text(err)
	}
	return out
}

// line returns the title and all errors in one line.
func line(title string, errs []error) string {
	return title + ": " + strings.Join(texts(errs, error.Error), "; ")
}

// report returns the title followed by a list of items. Items may be reports.
func report(title string, items []string) string {
	lines := []string{title + ":"}
	for _, item := range items {
		lines = append(lines, "- "+strings.ReplaceAll(item, "\n", "\n  "))
	}
	return strings.Join(lines, "\n")
}
