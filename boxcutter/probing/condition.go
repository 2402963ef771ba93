// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConditionProbe looks for a condition in status.conditions. It is Unknown
// while the condition is not there, cannot be read, or was made for another
// generation of the object than the present one.
type ConditionProbe struct {
	// Type is the type of the condition, Status the status that it must have.
	Type, Status string
}

// Probe answers whether the condition has the status.
func (cp *ConditionProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		return cp.probe(fields, obj.GetGeneration())
	})
}

func (cp *ConditionProbe) probe(fields map[string]any, generation int64) Result {
	value, found, err := unstructured.NestedFieldNoCopy(fields, "status", "conditions")
	if err != nil || !found {
		return UnknownResult("object has no status.conditions")
	}
	conditions, ok := value.([]any)
	if !ok {
		return UnknownResult(fmt.Sprintf("status.conditions is malformed: %T is no list", value))
	}
	for i, value := range conditions {
		condition, ok := value.(map[string]any)
		if !ok {
			return UnknownResult(fmt.Sprintf("status.conditions[%d] is malformed: %T is no object", i, value))
		}
		if condition["type"] == cp.Type {
			return cp.judge(condition, generation)
		}
	}
	return UnknownResult(fmt.Sprintf("object has no condition %q", cp.Type))
}

func (cp *ConditionProbe) judge(condition map[string]any, generation int64) Result {
	if result, ok := upToDate(condition, generation, fmt.Sprintf("condition %q", cp.Type)); !ok {
		return result
	}
	status, ok := condition["status"].(string)
	switch {
	case !ok:
		return UnknownResult(fmt.Sprintf("condition %q is malformed: it has no status", cp.Type))
	case status == cp.Status:
		return TrueResult(fmt.Sprintf("condition %q is %q", cp.Type, status))
	default:
		return FalseResult(fmt.Sprintf("condition %q is %q, want %q%s", cp.Type, status, cp.Status, reason(condition)))
	}
}

// reason is what the condition says why it is as it is.
func reason(condition map[string]any) string {
	text, _ := condition["reason"].(string)
	if message, ok := condition["message"].(string); ok && message != "" {
		text += ": " + message
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// ObservedGenerationProbe asks its probe when the status was made for the
// present generation of the object, or does not say for which. Otherwise it is
// Unknown.
type ObservedGenerationProbe struct {
	// Prober is asked about objects whose status is up to date.
	Prober
}

// Probe asks the probe unless status.observedGeneration is out of date.
func (cg *ObservedGenerationProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		status, _ := fields["status"].(map[string]any)
		if result, ok := upToDate(status, obj.GetGeneration(), "status"); !ok {
			return result
		}
		return ask(cg.Prober, obj)
	})
}

// upToDate compares the observedGeneration of a part of the object, when it has
// one, with the generation of the object.
func upToDate(part map[string]any, generation int64, name string) (Result, bool) {
	switch observed := part["observedGeneration"].(type) {
	case nil:
		return Result{}, true
	case int64:
		if observed == generation {
			return Result{}, true
		}
		return UnknownResult(fmt.Sprintf("%s is out of date: it is for generation %d, the object is at %d", name, observed, generation)), false
	default:
		return UnknownResult(fmt.Sprintf("%s is malformed: observedGeneration is %v", name, observed)), false
	}
}
