// SPDX-License-Identifier: Apache-2.0

// Package faults is a proxy between one client and an API server, on which the
// server's failures can be played: answers that are errors, slow, cut or lost,
// and a server that is gone. It counts the requests.
//
//	proxy, err := faults.Start(config)                              // the client's own configuration
//	defer proxy.Close()
//	kubeconfig, err := proxy.Kubeconfig()                           // for the client
//	proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: 5, Lose: true})
//
// The client talks to the proxy over TLS, because it sends its token over TLS
// only, and over HTTP/1.1, so that each request has a connection of its own while
// it lasts and a cut hits that request alone.
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

// Writes are the verbs that change something.
var Writes = []string{Create, Update, Patch, Delete}

// Fault happens to requests instead of, or besides, an answer. A zero
// field is no effect. Do and Delay go with every other effect.
type Fault struct {
	// Verbs are those of the requests that are meant; nil is every verb.
	Verbs []string
	// Path is a pattern as of path.Match for the whole path of the URL, or a
	// substring of it if it has no "*"; "" is every path.
	Path string
	// Every makes the fault happen to each nth of the requests that it matches
	// only; 0 is each of them.
	Every int
	// Times is how often the fault happens; 0 is always.
	Times int
	// SkipDryRuns spares dry runs: they write nothing into etcd.
	SkipDryRuns bool
	// EachOnce makes the fault happen to the first of all requests with the same verb
	// and path only, dry runs counted apart.
	EachOnce bool

	// Do is called before anything else happens, if it is not nil.
	Do func()
	// After is called when the API server has answered, before the client gets the
	// answer, if it is not nil.
	After func()
	// Delay is the time to wait then.
	Delay time.Duration
	// Status is the HTTP status to answer with, as a Status object of the API. The
	// request does not reach the API server.
	Status int
	// Message is that of the Status object; empty means one that names the fault.
	Message string
	// Late has the API server carry out the request before it is answered with Status,
	// as a gateway does that waits too long.
	Late bool
	// RetryAfter is the header of that answer, in whole seconds.
	RetryAfter time.Duration
	// Reset resets the connection. The request does not reach the API server.
	Reset bool
	// Lose has the API server carry out the request, and resets the connection
	// instead of answering.
	Lose bool
	// Cut ends the connection this long after the request came, in the middle of
	// the answer if that is not at its end: a watch, in practice.
	Cut time.Duration
}

// matches reports whether the fault is meant for a request.
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

// scripted is a fault with the number of requests that it has matched, and of
// those that it has happened to.
type scripted struct {
	Fault
	matched, happened int
	met               map[string]bool // the requests of EachOnce
}

// happens counts a request that the fault matches, and reports whether it meets it.
// request identifies it for EachOnce.
func (s *scripted) happens(request string) bool {
	if s.Times > 0 && s.happened == s.Times {
		return false
	}
	if s.EachOnce {
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
