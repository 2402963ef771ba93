// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ProgressProbeType is the type of the probe that decides whether an object is
// complete, and therefore whether the next phase may start.
const ProgressProbeType = "Progress"

// Prober checks the state of an object.
type Prober interface {
	// Probe checks the object as it was last read.
	Probe(obj client.Object) ProbeResult
}

// ProbeStatus is the status of a probe.
type ProbeStatus string

const (
	// ProbeStatusTrue means that the object is in the desired state.
	ProbeStatusTrue ProbeStatus = "True"
	// ProbeStatusFalse means that the object is not in the desired state.
	ProbeStatusFalse ProbeStatus = "False"
	// ProbeStatusUnknown means that the state cannot be determined yet.
	ProbeStatusUnknown ProbeStatus = "Unknown"
)

// ProbeResult is the status of a probe and its reason.
type ProbeResult struct {
	// Status is the status.
	Status ProbeStatus
	// Messages explain the status to users.
	Messages []string
}

// ProbeResultContainer holds the results of an object's probes by probe type.
type ProbeResultContainer map[string]ProbeResult

// Type returns the result of the probe with this type, or Unknown if there is no
// such probe.
func (c ProbeResultContainer) Type(t string) ProbeResult {
	if result, ok := c[t]; ok {
		return result
	}
	return ProbeResult{Status: ProbeStatusUnknown, Messages: []string{fmt.Sprintf("no such probe %q", t)}}
}

type probeFunc struct {
	fn func(obj client.Object) ProbeResult
}

// Probe calls the function.
func (p *probeFunc) Probe(obj client.Object) ProbeResult { return p.fn(obj) }

// ProbeFunc returns a comparable Prober that calls a function.
func ProbeFunc(fn func(obj client.Object) ProbeResult) Prober { return &probeFunc{fn} }
