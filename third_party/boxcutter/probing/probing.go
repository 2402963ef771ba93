// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

// Prober checks the state of an object.
type Prober = types.Prober

// Status is the status of a probe.
type Status = types.ProbeStatus

const (
	// StatusTrue means that the object is in the desired state.
	StatusTrue Status = types.ProbeStatusTrue
	// StatusFalse means that the object is not in the desired state.
	StatusFalse Status = types.ProbeStatusFalse
	// StatusUnknown means that the state cannot be determined yet.
	StatusUnknown Status = types.ProbeStatusUnknown
)

// Result is the status of a probe and its reason.
type Result = types.ProbeResult

// TrueResult returns a result with StatusTrue.
func TrueResult(msgs ...string) Result { return Result{Status: StatusTrue, Messages: msgs} }

// FalseResult returns a result with StatusFalse.
func FalseResult(msgs ...string) Result { return Result{Status: StatusFalse, Messages: msgs} }

// UnknownResult returns a result with StatusUnknown.
func UnknownResult(msgs ...string) Result { return Result{Status: StatusUnknown, Messages: msgs} }

// And combines probes. The result is Unknown if a probe is Unknown, else False if a
// probe is False, with the messages of the probes with this status. Without probes,
// the result is True.
type And []Prober

// Probe calls all probes and combines their results.
func (p And) Probe(obj client.Object) Result {
	messages := map[Status][]string{}
	asked := map[Status]bool{}
	for _, prober := range p {
		result := runProbe(prober, obj)
		asked[result.Status] = true
		messages[result.Status] = append(messages[result.Status], result.Messages...)
	}
	for _, status := range []Status{StatusUnknown, StatusFalse} {
		if asked[status] {
			return Result{Status: status, Messages: messages[status]}
		}
	}
	return TrueResult(messages[StatusTrue]...)
}

// runProbe calls a probe. The result is Unknown if the probe is nil or returns an
// invalid status.
func runProbe(prober Prober, obj client.Object) Result {
	if prober == nil {
		return UnknownResult("probe is not set")
	}
	result := prober.Probe(obj)
	switch result.Status {
	case StatusTrue, StatusFalse, StatusUnknown:
		return result
	default:
		return UnknownResult(append([]string{fmt.Sprintf("probe returned invalid status %q", result.Status)}, result.Messages...)...)
	}
}

// content returns the unstructured content of the object. The caller must
// not modify it.
func content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", obj, err)
	}
	return fields, nil
}

// probeContent calls a probe with the fields of an object.
func probeContent(obj client.Object, probe func(fields map[string]any) Result) Result {
	fields, err := content(obj)
	if err != nil {
		return UnknownResult(err.Error())
	}
	return probe(fields)
}
