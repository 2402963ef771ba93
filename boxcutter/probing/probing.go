// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

// Prober says whether an object is in the state somebody waits for.
type Prober = types.Prober

// Status is the answer of a probe.
type Status = types.ProbeStatus

const (
	// StatusTrue means that the object is in the state asked for.
	StatusTrue Status = types.ProbeStatusTrue
	// StatusFalse means that it is not.
	StatusFalse Status = types.ProbeStatusFalse
	// StatusUnknown means that it cannot be told, or not yet.
	StatusUnknown Status = types.ProbeStatusUnknown
)

// Result is the answer of a probe and why.
type Result = types.ProbeResult

// TrueResult says that the object is in the state asked for.
func TrueResult(msgs ...string) Result { return Result{Status: StatusTrue, Messages: msgs} }

// FalseResult says that the object is not in the state asked for.
func FalseResult(msgs ...string) Result { return Result{Status: StatusFalse, Messages: msgs} }

// UnknownResult says that it cannot be told.
func UnknownResult(msgs ...string) Result { return Result{Status: StatusUnknown, Messages: msgs} }

// And asks all its probes. One Unknown makes the answer Unknown, else one False
// makes it False. The messages are those of the probes that answered so. No
// probes answer True.
type And []Prober

// Probe asks all probes and combines their answers.
func (p And) Probe(obj client.Object) Result {
	messages := map[Status][]string{}
	asked := map[Status]bool{}
	for _, prober := range p {
		result := ask(prober, obj)
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

// ask makes a probe that is not there an answer that is not known, and of an
// answer that is none of the three as well.
func ask(prober Prober, obj client.Object) Result {
	if prober == nil {
		return UnknownResult("no probe given")
	}
	result := prober.Probe(obj)
	switch result.Status {
	case StatusTrue, StatusFalse, StatusUnknown:
		return result
	default:
		return UnknownResult(append([]string{fmt.Sprintf("probe answered %q", result.Status)}, result.Messages...)...)
	}
}

// content is the object in the form in which the API has it, which must not be
// changed.
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

// probeContent asks a question about the fields of an object.
func probeContent(obj client.Object, probe func(fields map[string]any) Result) Result {
	fields, err := content(obj)
	if err != nil {
		return UnknownResult(err.Error())
	}
	return probe(fields)
}
