// SPDX-License-Identifier: Apache-2.0

package types

import "sigs.k8s.io/controller-runtime/pkg/client"

// ProgressProbeType is the type of the probe that decides whether an object is
// complete, and so whether the next phase may begin.
const ProgressProbeType = "Progress"

// Prober says whether an object is in the state somebody waits for.
type Prober interface {
	// Probe looks at the object as it was read last.
	Probe(obj client.Object) ProbeResult
}

// ProbeStatus is the answer of a probe.
type ProbeStatus string

const (
	// ProbeStatusTrue means that the object is in the state asked for.
	ProbeStatusTrue ProbeStatus = "True"
	// ProbeStatusFalse means that it is not.
	ProbeStatusFalse ProbeStatus = "False"
	// ProbeStatusUnknown means that it cannot be told, or not yet.
	ProbeStatusUnknown ProbeStatus = "Unknown"
)

// ProbeResult is the answer of a probe and why.
type ProbeResult struct {
	// Status is the answer.
	Status ProbeStatus
	// Messages explain the answer to a person.
	Messages []string
}

// ProbeResultContainer holds the results of an object's probes by probe type.
type ProbeResultContainer map[string]ProbeResult

// Type returns the result of the probe of that type, Unknown when there is no
// such probe.
func (c ProbeResultContainer) Type(t string) ProbeResult {
	if result, ok := c[t]; ok {
		return result
	}
	return ProbeResult{Status: ProbeStatusUnknown, Messages: []string{"no such probe"}}
}

type probeFunc func(obj client.Object) ProbeResult

// Probe calls the function.
func (fn probeFunc) Probe(obj client.Object) ProbeResult { return fn(obj) }

// ProbeFunc makes a function a Prober.
func ProbeFunc(fn func(obj client.Object) ProbeResult) Prober { return probeFunc(fn) }
