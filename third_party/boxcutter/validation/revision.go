// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

// RevisionValidator checks a revision without the API server: phase names, object
// metadata and duplicate objects.
type RevisionValidator struct{}

// NewRevisionValidator returns the validator.
func NewRevisionValidator() *RevisionValidator { return &RevisionValidator{} }

// Validate returns nil or a *RevisionValidationError with all findings.
func (v *RevisionValidator) Validate(_ context.Context, rev types.Revision) error {
	holders := phasesByObject(rev.GetPhases())
	var errs []PhaseValidationError
	for _, phase := range rev.GetPhases() {
		if err, ok := errors.AsType[*PhaseValidationError](validatePhase(phase, holders)); ok {
			errs = append(errs, *err)
		}
	}
	return NewRevisionValidationError(rev.GetName(), rev.GetRevisionNumber(), errs...)
}

func validatePhase(phase types.Phase, holders map[types.ObjectRef][]string) error {
	var errs []ObjectValidationError
	seen := map[types.ObjectRef]bool{}
	for _, obj := range phase.GetObjects() {
		ref := types.ToObjectRef(obj)
		objErrs := validateMetadata(obj)
		if !seen[ref] {
			objErrs = append(objErrs, duplication(holders[ref]))
		}
		seen[ref] = true
		if err, ok := errors.AsType[*ObjectValidationError](NewObjectValidationError(ref, objErrs...)); ok {
			errs = append(errs, *err)
		}
	}
	return NewPhaseValidationError(phase.GetName(), validatePhaseName(phase.GetName()), errs...)
}

func validatePhaseName(name string) error {
	if messages := utilvalidation.IsDNS1035Label(name); len(messages) > 0 {
		return PhaseNameInvalidError{PhaseName: name, ErrorMessages: messages}
	}
	return nil
}

// phasesByObject returns the phase names of each object, once per occurrence.
func phasesByObject(phases []types.Phase) map[types.ObjectRef][]string {
	holders := map[types.ObjectRef][]string{}
	for _, phase := range phases {
		for _, obj := range phase.GetObjects() {
			ref := types.ToObjectRef(obj)
			holders[ref] = append(holders[ref], phase.GetName())
		}
	}
	return holders
}

func duplication(phaseNames []string) error {
	if len(phaseNames) < 2 {
		return nil
	}
	return PhaseObjectDuplicationError{PhaseNames: slices.Compact(slices.Sorted(slices.Values(phaseNames)))}
}

// validateMetadata requires the identity of the object and forbids the metadata
// that the API server and the engine set.
func validateMetadata(obj client.Object) []error {
	errs := validateKind(obj)
	if obj.GetGenerateName() == "" {
		errs = append(errs, validateName(obj)...)
	}
	metadata := field.NewPath("metadata")
	set := map[string]bool{
		"uid":             obj.GetUID() != "",
		"generation":      obj.GetGeneration() != 0,
		"generateName":    obj.GetGenerateName() != "",
		"finalizers":      len(obj.GetFinalizers()) > 0,
		"ownerReferences": len(obj.GetOwnerReferences()) > 0,
		"resourceVersion": obj.GetResourceVersion() != "",
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] {
			errs = append(errs, field.Forbidden(metadata.Child(name), "must be empty"))
		}
	}
	return errs
}

// validateIdentity requires the fields without which the client cannot send a
// request. The client's error would differ from a retryable error only in its
// text.
func validateIdentity(obj client.Object) []error {
	return append(validateKind(obj), validateName(obj)...)
}

func validateKind(obj client.Object) []error {
	var errs []error
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Version == "" {
		errs = append(errs, field.Required(field.NewPath("apiVersion"), "must be set to <version> or <group>/<version>"))
	}
	if gvk.Kind == "" {
		errs = append(errs, field.Required(field.NewPath("kind"), "must be set"))
	}
	return errs
}

func validateName(obj client.Object) []error {
	var errs []error
	if obj.GetName() == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "must be set"))
	}
	errs = append(errs, validateSegment("name", obj.GetName())...)
	return append(errs, validateSegment("namespace", obj.GetNamespace())...)
}

// validateSegment requires a valid segment of a URL path.
func validateSegment(child, value string) []error {
	var errs []error
	for _, message := range content.IsPathSegmentName(value) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", child), value, message))
	}
	return errs
}
