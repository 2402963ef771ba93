// SPDX-License-Identifier: Apache-2.0

// Package faults is a proxy between a client and an API server that injects
// failures of the server: error responses, slow, truncated or lost responses, and
// an unavailable server. It counts the requests.
//
//	proxy, err := faults.Start(config)                              // the client's own configuration
//	defer proxy.Close()
//	kubeconfig, err := proxy.Kubeconfig()                           // for the client
//	proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: 5, Lose: true})
//
// The client connects to the proxy with HTTP/1.1, so that each request has its own
// connection and a closed connection affects only one request, and without TLS,
// because each of its watches would need a handshake. The proxy adds the client's
// credentials.
package faults

import (
	"path"
	"slices"
	"strings"
	"time"
)

// The verbs of requests. Get includes lists.
const (
	Get    = "get"
	Watch  = "watch"
	Create = "create"
	Update = "update"
	Patch  = "patch"
	Delete = "delete"
)

// Writes are the verbs of write requests.
var Writes = []string{Create, Update, Patch, Delete}

// Fault describes a fault and the requests into which it is injected. Zero fields
// have no effect. Do and Delay can be combined with every other effect.
type Fault struct {
	// Verbs are the verbs of the affected requests; nil means all.
	Verbs []string
	// Path is a pattern as of path.Match for the whole path of the URL, or a
	// substring of it if it has no "*"; "" means every path.
	Path string
	// Every injects the fault only into every nth matching request; 0 means all.
	Every int
	// Times is the maximum number of injections; 0 means no limit.
	Times int
	// SkipDryRuns exempts dry runs: they do not write to etcd.
	SkipDryRuns bool
	// EachOnce injects the fault only into the first request with the same verb, path,
	// name of a created object, and dryRun.
	EachOnce bool
	// EachFirst injects the fault into the first attempt of every write of an object:
	// further requests are its retries, and pass, until one is successful. The same operation fails
	// at most twice, so that the number of attempts is finite for a client that begins again with
	// operations that succeeded, such as creating and deleting a policy. For dry runs and for
	// reviews, which change nothing, it is EachOnce, because a client that repeats all of them
	// after each failure would hardly ever see all pass.
	EachFirst bool

	// Do, if not nil, is called first.
	Do func()
	// After, if not nil, is called after the API server has responded and before
	// the client receives the response.
	After func()
	// Delay is the time to wait after Do.
	Delay time.Duration
	// Status is the HTTP status of the error response; its body is a Status
	// object. The request is not forwarded to the API server.
	Status int
	// Message is the message of the Status object; empty means a default.
	Message string
	// Late forwards the request to the API server before the response with Status,
	// like a gateway timeout.
	Late bool
	// RetryAfter is the Retry-After header of that response, in whole seconds.
	RetryAfter time.Duration
	// Reset resets the connection. The request is not forwarded to the API
	// server.
	Reset bool
	// Lose forwards the request to the API server, and resets the connection
	// instead of sending the response.
	Lose bool
	// Cut closes the connection this long after the request arrived, even during
	// the response. It is useful for watches.
	Cut time.Duration
}

// matches reports whether the fault applies to a request.
func (f Fault) matches(verb, requested string, dryRun bool) bool {
	if f.Verbs != nil && !slices.Contains(f.Verbs, verb) || f.SkipDryRuns && dryRun {
		return false
	}
	if !strings.Contains(f.Path, "*") {
		return strings.Contains(requested, f.Path)
	}
	matched, _ := path.Match(f.Path, requested)
	return matched
}

// scripted is a fault with the numbers of matched requests and of injections.
type scripted struct {
	Fault
	matched, happened int
	met               map[string]bool // the requests of EachOnce, and of EachFirst unless one was successful since
	renewed           map[string]bool // the requests of EachFirst of which one was successful
}

// happens counts a matching request and reports whether to inject the fault.
// request identifies the request for EachOnce and EachFirst.
func (s *scripted) happens(request string) bool {
	if s.Times > 0 && s.happened == s.Times {
		return false
	}
	if s.EachOnce || s.EachFirst {
		if s.met[request] {
			return false
		}
		s.met[request] = true
	}
	s.matched++
	if s.Every > 0 && s.matched%s.Every != 0 {
		return false
	}
	s.happened++
	return true
}

// succeeded makes the next request with the same identity a new write for EachFirst.
func (s *scripted) succeeded(request string) {
	if s.EachFirst && !s.renewed[request] {
		delete(s.met, request)
		s.renewed[request] = true
	}
}
