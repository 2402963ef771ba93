// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"pkg.package-operator.run/boxcutter/validation"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// checkedCRD is the result for an unmanaged CRD that the installer has checked, in
// boxcutter's form.
type checkedCRD struct {
	crd    *unstructured.Unstructured
	probes types.ProbeResultContainer
}

// newCheckedCRD returns the result with a CRD that consists of its name and condition Compatible.
func newCheckedCRD(check crdCheck) checkedCRD {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": probe.Compatible, "status": check.status, "reason": check.reason, "message": check.message},
		}},
	}}
	crd.SetGroupVersionKind(object.CRDVersion)
	crd.SetName(check.crd)
	progress := probing.TrueResult()
	if status, detail := probe.Condition(crd, probe.Compatible); status != "True" {
		progress = probing.FalseResult("Compatible is " + status + ": " + detail + " (" + checkedByInstaller + ")")
	}
	return checkedCRD{crd: crd, probes: types.ProbeResultContainer{
		boxcutter.ProgressProbeType: progress,
		availableProbe:              probing.TrueResult(), // of the installed version
	}}
}

// Action reports that nothing is written.
func (c checkedCRD) Action() machinery.Action { return machinery.ActionIdle }

// Object returns the name of the CRD and its condition.
func (c checkedCRD) Object() machinery.Object { return c.crd }

// ProbeResults returns the result of the check as that of the progress probe.
func (c checkedCRD) ProbeResults() types.ProbeResultContainer { return c.probes }

// IsComplete reports whether the CRD is compatible.
func (c checkedCRD) IsComplete() bool {
	return c.probes.Type(boxcutter.ProgressProbeType).Status == types.ProbeStatusTrue
}

// IsPaused reports that no write is pending.
func (c checkedCRD) IsPaused() bool { return false }

func (c checkedCRD) String() string { return describe(c.crd) }

// checkResult is the result of the preflight phase where the installer checks unmanaged
// CRDs, and of a revision that has only this phase.
type checkResult struct {
	objects []machinery.ObjectResult
	// failed is set if a CRD could not be checked.
	failed   bool
	deadline time.Time
}

// preflightResult is a checkResult as the result of a phase.
type preflightResult struct{ *checkResult }

// GetName returns the name of the phase.
func (r preflightResult) GetName() string { return revision.Preflight }

// GetValidationError returns nil: nothing is written.
func (r preflightResult) GetValidationError() *validation.PhaseValidationError { return nil }

// GetObjects returns the results of the CRDs.
func (r preflightResult) GetObjects() []machinery.ObjectResult { return r.objects }

// GetValidationError returns nil: nothing is written.
func (r *checkResult) GetValidationError() *validation.RevisionValidationError { return nil }

// GetPhases returns the phase; none if the revision has no check.
func (r *checkResult) GetPhases() []machinery.PhaseResult {
	if r.objects == nil {
		return nil
	}
	return []machinery.PhaseResult{preflightResult{r}}
}

// InTransition reports that no object belongs to another revision.
func (r *checkResult) InTransition() bool { return false }

// HasProgressed reports whether there is no check: a check belongs to no newer revision.
func (r *checkResult) HasProgressed() bool { return len(r.objects) == 0 && !r.failed }

// IsComplete reports whether all CRDs are compatible.
func (r *checkResult) IsComplete() bool {
	return !r.failed && !slices.ContainsFunc(r.objects, func(o machinery.ObjectResult) bool { return !o.IsComplete() })
}

// ProgressDeadlineExceeded reports whether a CRD is not compatible after the deadline.
func (r *checkResult) ProgressDeadlineExceeded() bool {
	return !r.IsComplete() && !r.deadline.IsZero() && time.Now().After(r.deadline)
}

func (r *checkResult) String() string { return revision.Preflight }
