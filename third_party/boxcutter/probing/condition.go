// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConditionProbe checks a condition in status.conditions. The result is Unknown if
// the condition is missing, malformed, or outdated (observedGeneration is not the
// object's generation).
type ConditionProbe struct {
	// Type is the type of the condition, Status the desired status.
	Type, Status string
}

// Probe reports whether the condition has the status.
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
		return UnknownResult(fmt.Sprintf("status.conditions is malformed: got %T, want a list", value))
	}
	for i, value := range conditions {
		condition, ok := value.(map[string]any)
		if !ok {
			return UnknownResult(fmt.Sprintf("status.conditions[%d] is malformed: got %T, want an object", i, value))
		}
		if condition["type"] == cp.Type {
			return cp.compare(condition, generation)
		}
	}
	return UnknownResult(fmt.Sprintf("object has no condition %q", cp.Type))
}

func (cp *ConditionProbe) compare(condition map[string]any, generation int64) Result {
	if result, ok := upToDate(condition, generation, fmt.Sprintf("condition %q", cp.Type)); !ok {
		return result
	}
	status, _ := condition["status"].(string)
	if status == cp.Status {
		return TrueResult(fmt.Sprintf("condition %q is %q", cp.Type, status))
	}
	return FalseResult(fmt.Sprintf("condition %q is %q, want %q%s", cp.Type, status, cp.Status, reason(condition)))
}

// reason returns the reason and the message of the condition for messages.
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

// ObservedGenerationProbe calls its probe if status.observedGeneration is the
// object's generation. Otherwise the result is Unknown.
type ObservedGenerationProbe struct {
	// Prober checks objects whose status is up to date.
	Prober
}

// Probe calls the probe unless status.observedGeneration is outdated.
func (cg *ObservedGenerationProbe) Probe(obj client.Object) Result {
	return probeContent(obj, func(fields map[string]any) Result {
		status, _ := fields["status"].(map[string]any)
		if result, ok := upToDate(status, obj.GetGeneration(), "status"); !ok {
			return result
		}
		return runProbe(cg.Prober, obj)
	})
}

// upToDate compares the observedGeneration of a part of the object with the
// generation of the object. A missing or malformed observedGeneration is ignored.
func upToDate(part map[string]any, generation int64, name string) (Result, bool) {
	observed, ok := part["observedGeneration"].(int64)
	if !ok || observed == generation {
		return Result{}, true
	}
	return UnknownResult(fmt.Sprintf("%s is outdated: observed generation %d, current generation %d", name, observed, generation)), false
}
