// SPDX-License-Identifier: Apache-2.0

package util

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// SummarizeRevisionResult summarizes a result in one line: validation errors, phases
// with collisions or failing probes, and whether the revision is incomplete. It
// returns "" for nil.
func SummarizeRevisionResult(result machinery.RevisionResult) string {
	if result == nil {
		return ""
	}
	var parts []string
	if err := result.GetValidationError(); err != nil {
		parts = append(parts, "validation error: "+err.Error())
	}
	if issues := phaseIssues(result.GetPhases()); len(issues) > 0 {
		parts = append(parts, "phases with issues: "+strings.Join(issues, ", "))
	} else if count := len(result.GetPhases()); count > 0 {
		parts = append(parts, fmt.Sprintf("%d phase(s) successful", count))
	}
	switch {
	case result.InTransition():
		parts = append(parts, "status: in transition")
	case !result.IsComplete():
		parts = append(parts, "status: incomplete")
	}
	if len(parts) == 0 {
		return "reconcile completed successfully"
	}
	return strings.Join(parts, "; ")
}

// phaseIssues returns "<phase>: <issue>, <issue>" for each phase with issues.
func phaseIssues(phases []machinery.PhaseResult) []string {
	var out []string
	for _, phase := range phases {
		var issues []string
		if err := phase.GetValidationError(); err != nil {
			issues = append(issues, "validation error: "+err.Error())
		}
		for _, object := range phase.GetObjects() {
			issues = append(issues, objectIssues(object)...)
		}
		if len(issues) > 0 {
			out = append(out, phase.GetName()+": "+strings.Join(issues, ", "))
		}
	}
	return out
}

func objectIssues(object machinery.ObjectResult) []string {
	ref := types.ToObjectRef(object.Object())
	var out []string
	if object.Action() == machinery.ActionCollision {
		out = append(out, fmt.Sprintf("collision of %s", ref))
	}
	probes := object.ProbeResults()
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		if probe := probes[name]; probe.Status != types.ProbeStatusTrue {
			out = append(out, fmt.Sprintf("probe %s of %s is %s: %s", name, ref, probe.Status, strings.Join(probe.Messages, ", ")))
		}
	}
	return out
}

// SummarizeRevisionTeardownResult summarizes a teardown in one line: the active phase
// with the objects that it waits for, the waiting phases and the gone phases, or else the
// incomplete phases and the number of complete ones. It returns "" for nil.
func SummarizeRevisionTeardownResult(result machinery.RevisionTeardownResult) string {
	if result == nil {
		return ""
	}
	if result.IsComplete() {
		return "teardown completed successfully"
	}
	var parts []string
	if active, ok := result.GetActivePhaseName(); ok {
		parts = append(parts, "active phase: "+active+awaited(result.GetPhases()))
	}
	if waiting := result.GetWaitingPhaseNames(); len(waiting) > 0 {
		parts = append(parts, "waiting phases: "+strings.Join(waiting, ", "))
	}
	if gone := result.GetGonePhaseNames(); len(gone) > 0 {
		parts = append(parts, "gone phases: "+strings.Join(gone, ", "))
	}
	if len(parts) == 0 {
		parts = incompletePhases(result.GetPhases())
	}
	return strings.Join(parts, "; ")
}

// incompletePhases names the phases that are not complete, and counts the others.
func incompletePhases(phases []machinery.PhaseTeardownResult) []string {
	var names, parts []string
	for _, phase := range phases {
		if !phase.IsComplete() {
			names = append(names, phase.GetName())
		}
	}
	if len(names) > 0 {
		parts = append(parts, "incomplete phases: "+strings.Join(names, ", "))
	}
	if complete := len(phases) - len(names); complete > 0 {
		parts = append(parts, fmt.Sprintf("%d phase(s) completed", complete))
	}
	return parts
}

func awaited(phases []machinery.PhaseTeardownResult) string {
	var refs []string
	for _, phase := range phases {
		for _, ref := range phase.Waiting() {
			refs = append(refs, ref.String())
		}
	}
	if len(refs) == 0 {
		return ""
	}
	return " (waiting for " + strings.Join(refs, ", ") + ")"
}
