// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object is an object that the engines handle.
type Object interface {
	client.Object
	runtime.Object
}

// Action is the action that was taken on an object, or would be taken if not paused.
type Action string

const (
	// ActionCreated means that the object did not exist and was created.
	ActionCreated Action = "Created"
	// ActionUpdated means that the object was updated to the desired state.
	ActionUpdated Action = "Updated"
	// ActionRecovered means that changes of another field manager were reverted.
	ActionRecovered Action = "Recovered"
	// ActionProgressed means that the object belongs to a newer revision.
	ActionProgressed Action = "Progressed"
	// ActionIdle means that the object is in the desired state.
	ActionIdle Action = "Idle"
	// ActionCollision means that the object exists and may not be adopted.
	ActionCollision Action = "Collision"
)

// ObjectResult is the result for one object.
type ObjectResult interface {
	// Action returns the action.
	Action() Action
	// Object returns the object as it was last read or written.
	Object() Object
	// ProbeResults returns the results of all probes by their type.
	ProbeResults() types.ProbeResultContainer
	// String describes the result in several lines.
	String() string
	// IsComplete reports whether the object is in the desired state and its progress
	// probe, if any, succeeds.
	IsComplete() bool
	// IsPaused reports whether the action was skipped because of WithPaused.
	IsPaused() bool
}

// ObjectProbeResult is the result of a probe as a boolean.
type ObjectProbeResult struct {
	// Success is true if the probe succeeds.
	Success bool
	// Messages explain the result to users.
	Messages []string
}

// objectResult is the common part of all results.
type objectResult struct {
	action Action
	object Object
	paused bool
	// awaited reports whether a progress probe is registered.
	awaited bool
	probes  types.ProbeResultContainer
}

// result probes the object and returns the result of an action of the plan.
func (p *plan) result(action Action, obj Object) ObjectResult {
	result := objectResult{
		action: action,
		object: obj,
		paused: p.options.Paused,
		probes: runProbes(obj, p.options.Probes),
	}
	_, result.awaited = p.options.Probes[types.ProgressProbeType]
	compared := comparedResult{result, p.comparison}
	switch action {
	case ActionCreated:
		return ObjectResultCreated{result}
	case ActionUpdated:
		return ObjectResultUpdated{compared}
	case ActionRecovered:
		return ObjectResultRecovered{compared}
	case ActionProgressed:
		return ObjectResultProgressed{compared}
	case ActionCollision:
		return ObjectResultCollision{comparedResult: compared, conflictingOwner: p.controller}
	default:
		return ObjectResultIdle{compared}
	}
}

func runProbes(obj Object, probes map[string]types.Prober) types.ProbeResultContainer {
	results := types.ProbeResultContainer{}
	for name, probe := range probes {
		results[name] = probe.Probe(obj)
	}
	return results
}

// Action returns the action.
func (r objectResult) Action() Action { return r.action }

// Object returns the object as it was last read or written.
func (r objectResult) Object() Object { return r.object }

// IsPaused reports whether the action was skipped because of WithPaused.
func (r objectResult) IsPaused() bool { return r.paused }

// ProbeResults returns the results of all probes by their type.
func (r objectResult) ProbeResults() types.ProbeResultContainer { return r.probes }

// IsComplete reports whether the object is in the desired state and its progress
// probe, if any, succeeds.
func (r objectResult) IsComplete() bool {
	if r.action == ActionCollision {
		return false
	}
	if r.paused && r.action != ActionIdle && r.action != ActionProgressed {
		return false
	}
	return !r.awaited || r.probes.Type(types.ProgressProbeType).Status == types.ProbeStatusTrue
}

// String describes the result in several lines.
func (r objectResult) String() string { return r.head() + r.describeProbes() }

func (r objectResult) head() string {
	paused := ""
	if r.paused {
		paused = " (PAUSED)"
	}
	kind := r.object.GetObjectKind().GroupVersionKind()
	return fmt.Sprintf("Object %s.%s %s\nAction%s: %q\n",
		kind.Kind, kind.GroupVersion(), client.ObjectKeyFromObject(r.object), paused, r.action)
}

func (r objectResult) describeProbes() string {
	if len(r.probes) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("Probes:\n")
	for _, name := range slices.Sorted(maps.Keys(r.probes)) {
		result := r.probes[name]
		fmt.Fprintf(&text, "- %s: %s\n", name, probeOutcome(result.Status))
		for _, message := range result.Messages {
			fmt.Fprintf(&text, "  - %s\n", message)
		}
	}
	return text.String()
}

func probeOutcome(status types.ProbeStatus) string {
	switch status {
	case types.ProbeStatusTrue:
		return "Succeeded"
	case types.ProbeStatusFalse:
		return "Failed"
	default:
		return "Unknown"
	}
}

// comparedResult is the result for an object that existed and was compared.
type comparedResult struct {
	objectResult

	comparison CompareResult
}

// CompareResult returns the difference between the desired object and the object
// before the action.
func (r comparedResult) CompareResult() CompareResult { return r.comparison }

// String describes the result in several lines, with the difference.
func (r comparedResult) String() string { return r.objectResult.String() + r.comparison.String() }

// ObjectResultCreated is the result for an object that was created.
type ObjectResultCreated struct{ objectResult }

// ObjectResultUpdated is the result for an object that was updated or adopted.
type ObjectResultUpdated struct{ comparedResult }

// ObjectResultProgressed is the result for an object of a newer revision.
type ObjectResultProgressed struct{ comparedResult }

// ObjectResultIdle is the result for an object in the desired state.
type ObjectResultIdle struct{ comparedResult }

// ObjectResultRecovered is the result for an object whose external changes were
// reverted.
type ObjectResultRecovered struct{ comparedResult }

// ObjectResultCollision is the result for an object that exists and may not be
// adopted.
type ObjectResultCollision struct {
	comparedResult

	conflictingOwner *metav1.OwnerReference
}

// ConflictingOwner returns the controller of the object, and false if it has
// none.
func (r ObjectResultCollision) ConflictingOwner() (*metav1.OwnerReference, bool) {
	return r.conflictingOwner, r.conflictingOwner != nil
}

// Success returns false.
func (r ObjectResultCollision) Success() bool { return false }

// String describes the result in several lines, with the conflicting owner.
func (r ObjectResultCollision) String() string {
	owner := "nil"
	if r.conflictingOwner != nil {
		owner = fmt.Sprintf("%s.%s %s (UID %s)",
			r.conflictingOwner.Kind, r.conflictingOwner.APIVersion, r.conflictingOwner.Name, r.conflictingOwner.UID)
	}
	return r.objectResult.String() + "Conflicting Owner: " + owner + "\n" + r.comparison.String()
}
