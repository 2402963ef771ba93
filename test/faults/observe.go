// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/http"
	"time"
)

// Observation is a request that has ended.
type Observation struct {
	// Time is the time of arrival.
	Time time.Time
	// Verb is one of Get, Watch, Create, Update, Patch, Delete, or the HTTP method of another request.
	Verb string
	// Path is the path of the URL.
	Path string
	// Name is the name of the object that a create request has; empty for other verbs.
	Name string
	// DryRun is true for a write with dryRun=All.
	DryRun bool
	// Status is the HTTP status of the response; 0 if there was none.
	Status int
	// Faulty is true if a fault was injected into the request.
	Faulty bool
	// Watched describes a fault of a watch: it is about events, or a stale list. It is empty
	// for a request that has ended.
	Watched string
}

// Observe sets the function that is called for each request when it ends, and for each
// fault of a watch; nil disables it.
func (p *Proxy) Observe(observe func(Observation)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.observe = observe
}

func (p *Proxy) observer() func(Observation) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.observe
}

// disturbed counts a fault of a watch, and reports it to the observer.
func (p *Proxy) disturbed(path, watched string) {
	p.mutex.Lock()
	p.watchFaults++
	observe := p.observe
	p.mutex.Unlock()
	if observe != nil {
		observe(Observation{Time: time.Now(), Verb: Watch, Path: path, Faulty: true, Watched: watched})
	}
}

// WatchFaults returns the number of faults of watches: events that were held back by Freeze, stale
// lists, watches that were cut, and events that were affected by FailEvents.
func (p *Proxy) WatchFaults() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.watchFaults
}

// isZero reports whether the fault has no effect.
func (f Fault) isZero() bool {
	return f.Do == nil && f.After == nil && f.Delay == 0 && f.Status == 0 && !f.Reset && !f.Lose && f.Cut == 0
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// Unwrap is used by http.ResponseController.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
