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

// Object is what the engines handle.
type Object interface {
	client.Object
	runtime.Object
}

// Action says what was done with an object or, while paused, would be done.
type Action string

const (
	// ActionCreated means that the object was not there and was created.
	ActionCreated Action = "Created"
	// ActionUpdated means that the object was changed to what is desired.
	ActionUpdated Action = "Updated"
	// ActionRecovered means that somebody else had changed fields of the object
	// and that they were taken back.
	ActionRecovered Action = "Recovered"
	// ActionProgressed means that the object belongs to a newer revision.
	ActionProgressed Action = "Progressed"
	// ActionIdle means that the object is as desired.
	ActionIdle Action = "Idle"
	// ActionCollision means that the object belongs to somebody else.
	ActionCollision Action = "Collision"
)

// ObjectResult says what came of one object.
type ObjectResult interface {
	// Action returns what was done.
	Action() Action
	// Object returns the object as the cluster has it now.
	Object() Object
	// ProbeResults returns the results of all probes by their type.
	ProbeResults() types.ProbeResultContainer
	// String describes the result to a person, in several lines.
	String() string
	// IsComplete says whether nothing remains to be done or waited for.
	IsComplete() bool
	// IsPaused says whether the action was not taken because of a pause.
	IsPaused() bool
}

// ObjectProbeResult is the answer of a probe as yes or no.
type ObjectProbeResult struct {
	// Success is true when the probe is satisfied.
	Success bool
	// Messages explain the answer to a person.
	Messages []string
}

// objectResult is what all results have in common.
type objectResult struct {
	action Action
	object Object
	paused bool
	// awaited says whether a progress probe decides about completeness.
	awaited bool
	probes  types.ProbeResultContainer
}

// newObjectResult probes the object and makes the result for the action.
func newObjectResult(action Action, obj Object, options types.ObjectReconcileOptions) ObjectResult {
	result := objectResult{
		action: action,
		object: obj,
		paused: options.Paused,
		probes: runProbes(obj, options.Probes),
	}
	_, result.awaited = options.Probes[types.ProgressProbeType]
	switch action {
	case ActionCreated:
		return ObjectResultCreated{result}
	case ActionUpdated:
		return ObjectResultUpdated{result}
	case ActionRecovered:
		return ObjectResultRecovered{result}
	case ActionProgressed:
		return ObjectResultProgressed{result}
	default:
		return ObjectResultIdle{result}
	}
}

// newCollision makes the result for an object that belongs to somebody else:
// to the given controller, or to nobody known.
func newCollision(obj Object, controller *metav1.OwnerReference, options types.ObjectReconcileOptions) ObjectResult {
	return ObjectResultCollision{
		objectResult: objectResult{
			action: ActionCollision,
			object: obj,
			paused: options.Paused,
			probes: runProbes(obj, options.Probes),
		},
		conflictingOwner: controller,
	}
}

func runProbes(obj Object, probes map[string]types.Prober) types.ProbeResultContainer {
	results := types.ProbeResultContainer{}
	for name, probe := range probes {
		results[name] = probe.Probe(obj)
	}
	return results
}

// Action returns what was done.
func (r objectResult) Action() Action { return r.action }

// Object returns the object as the cluster has it now.
func (r objectResult) Object() Object { return r.object }

// IsPaused says whether the action was not taken because of a pause.
func (r objectResult) IsPaused() bool { return r.paused }

// ProbeResults returns the results of all probes by their type.
func (r objectResult) ProbeResults() types.ProbeResultContainer { return r.probes }

// IsComplete says whether nothing remains to be done or waited for.
func (r objectResult) IsComplete() bool {
	if r.action == ActionCollision {
		return false
	}
	if r.paused && r.action != ActionIdle && r.action != ActionProgressed {
		return false
	}
	return !r.awaited || r.probes.Type(types.ProgressProbeType).Status == types.ProbeStatusTrue
}

// String describes the result to a person.
func (r objectResult) String() string { return r.head() + r.describeProbes() }

func (r objectResult) head() string {
	paused := ""
	if r.paused {
		paused = " (PAUSED)"
	}
	return fmt.Sprintf("Object %s\nAction%s: %q\n", types.ToObjectRef(r.object), paused, r.action)
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

// ObjectResultCreated is the result for an object that was created.
type ObjectResultCreated struct{ objectResult }

// ObjectResultUpdated is the result for an object that was changed.
type ObjectResultUpdated struct{ objectResult }

// ObjectResultProgressed is the result for an object of a newer revision.
type ObjectResultProgressed struct{ objectResult }

// ObjectResultIdle is the result for an object that is as desired.
type ObjectResultIdle struct{ objectResult }

// ObjectResultRecovered is the result for an object whose fields were taken back.
type ObjectResultRecovered struct{ objectResult }

// ObjectResultCollision is the result for an object that belongs to somebody else.
type ObjectResultCollision struct {
	objectResult

	conflictingOwner *metav1.OwnerReference
}

// ConflictingOwner returns who controls the object, false when nobody does.
func (r ObjectResultCollision) ConflictingOwner() (*metav1.OwnerReference, bool) {
	return r.conflictingOwner, r.conflictingOwner != nil
}

// Success is never true for a collision.
func (r ObjectResultCollision) Success() bool { return false }

// String describes the result to a person, with the owner that is in the way.
func (r ObjectResultCollision) String() string {
	if r.conflictingOwner == nil {
		return r.objectResult.String()
	}
	owner := fmt.Sprintf("Conflicting Owner: %s.%s %s (UID %s)\n",
		r.conflictingOwner.Kind, r.conflictingOwner.APIVersion, r.conflictingOwner.Name, r.conflictingOwner.UID)
	return r.head() + owner + r.describeProbes()
}
