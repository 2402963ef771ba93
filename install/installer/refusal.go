// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"

	"github.com/capi-installer/capi-installer/install/probe"
)

// refusal is what a dry run has found: objects of a phase that the API server
// would not take, so that none of the phase was written.
type refusal struct {
	phase *validation.PhaseValidationError
}

// Error names the phase, and each object with every reason.
func (r refusal) Error() string {
	var found []string
	if r.phase.PhaseError != nil {
		found = append(found, r.phase.PhaseError.Error())
	}
	for _, object := range r.phase.Objects {
		found = append(found, describeRef(object.ObjectRef)+": "+errors.Join(object.Errors...).Error())
	}
	return "phase " + r.phase.PhaseName + " cannot be written: " + strings.ReplaceAll(strings.Join(found, "; "), "\n", "; ")
}

// Unwrap returns what was found.
func (r refusal) Unwrap() error { return r.phase }

// refused returns the refusal of the first phase of which there is one.
func refused(result machinery.RevisionResult) error {
	for _, phase := range result.GetPhases() {
		if err := phase.GetValidationError(); err != nil {
			return refusal{err}
		}
	}
	return nil
}

// checkerAbsent says whether the cluster has no API to ask for the compatibility
// of unmanaged CRDs.
func checkerAbsent(result machinery.RevisionResult) bool {
	var found refusal
	if !errors.As(refused(result), &found) {
		return false
	}
	for _, object := range found.phase.Objects {
		if object.ObjectRef.GroupKind() == probe.CompatibilityRequirement && meta.IsNoMatchError(object) {
			return true
		}
	}
	return false
}

// describeRef names an object as describe does.
func describeRef(ref types.ObjectRef) string {
	if ref.Namespace == "" {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}
