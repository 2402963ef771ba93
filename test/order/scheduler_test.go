// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// world is the state of one schedule.
type world struct {
	server   *server
	releases *releases
	images   string // path of images.json
	process  *process

	mu       sync.Mutex // of what the goroutines of processes add
	requests []*request
	logs     []string

	late []*request // of former leaders: they arrive when a step is reached, or nothing else happens
	// lateWrites is the time until these can arrive. A later process knows it from the lease.
	lateWrites time.Time

	waiting map[string]int // the step at which each waiting step was there
	trace   []string

	slow     map[string]int // actor -> step until which others are preferred
	shuffled int            // step until which the order is shuffled
	salt     uint32         // of the shuffle
	armed    []move         // faults that wait for a request
	quick    bool           // the kubelet does not wait until the programs wait for it
	recent   *request       // the write that a process is about to send, or has sent last
	ticks    int            // one before and one after each write of a process
	flaky    int            // step until which a third of the writes fail
	patience int            // seconds in which steps of delayed actors wait although nothing else happens
	backup   map[string]*unstructured.Unstructured
	check    *checker
}

// all returns the objects of a resource.
func (w *world) all(collection string) []*unstructured.Unstructured {
	objects, _ := w.server.all(collection, 0)
	return objects
}

func (w *world) leave(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = slices.DeleteFunc(w.requests, func(other *request) bool { return other == r })
}

// step is a request, a watch event, or an action that can be next.
type step struct {
	actor, text string
	since       int // step at which it was there
	run         func() error
	request     *request // nil for others
}

// steps returns the steps that can be next, in the order of their arrival.
func (w *world) steps() []step {
	var found []step
	for _, r := range w.requests {
		found = append(found, step{actor: r.actor, text: r.String(), request: r, run: func() error {
			w.leave(r)
			return w.pass(r)
		}})
	}
	w.process.streams = slices.DeleteFunc(w.process.streams, func(s *stream) bool { return s.ended })
	for _, s := range w.process.streams {
		if kind, c := s.pending(); c != nil {
			found = append(found, step{actor: s.name, text: s.name + ": " + kind + " " + c.object.GetName(), run: s.deliver})
		}
	}
	for _, r := range w.late {
		if len(w.trace) >= r.due {
			found = append(found, step{actor: "former leader", text: "former leader: " + r.String(), run: func() error { return w.arriveLate(r) }})
		}
	}
	found = append(found, w.machinery()...)
	now := map[string]int{}
	for i, s := range found {
		since, known := w.waiting[s.text]
		if !known {
			since = len(w.trace)
		}
		now[s.text], found[i].since = since, since
	}
	w.waiting = now
	slices.SortStableFunc(found, func(a, b step) int { return cmp.Or(a.since-b.since, strings.Compare(a.text, b.text)) })
	return found
}

// choose returns the next step.
func (w *world) choose(steps []step) step {
	at := len(w.trace)
	fast := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return w.slow[s.actor] > at })
	if len(fast) == 0 {
		fast = steps
	}
	if others := slices.DeleteFunc(slices.Clone(fast), func(s step) bool { return s.actor == "kubelet" }); !w.quick && len(others) > 0 {
		fast = others
	}
	if w.shuffled > at {
		return fast[mix(w.salt, uint32(at))%uint32(len(fast))]
	}
	return fast[0]
}

// mix returns a number that depends on both numbers.
func mix(a, b uint32) uint32 {
	x := a*0x9e3779b1 ^ (b+0x7f4a7c15)*0x85ebca6b
	x ^= x >> 15
	x *= 0x2c1b3c6d
	return x ^ x>>13
}

// quiet is the time without a write after which the world is at rest.
const quiet = 3 * time.Minute

// limit is the number of steps without rest after the last move.
const limit = 2500

// run runs steps and moves, whose ticks count from now, until the world is at rest.
func (w *world) run(moves []move) error {
	begin, last, idle, version := w.ticks, len(w.trace), time.Duration(0), int64(0)
	for {
		synctest.Wait()
		for len(moves) > 0 && begin+moves[0].At <= w.ticks {
			if err := w.apply(moves[0]); err != nil {
				return err
			}
			moves, last, idle = moves[1:], len(w.trace), 0
			synctest.Wait()
		}
		steps := w.steps()
		if len(steps) > 0 {
			next := w.choose(steps)
			if w.patience > 0 && w.slow[next.actor] > len(w.trace) { // time passes: a controller can reconcile with an old cache
				w.patience--
				time.Sleep(time.Second)
				continue
			}
			writes := next.request != nil && next.request.writes()
			if writes && !next.request.announced {
				next.request.announced, w.recent = true, next.request
				w.ticks++
				continue
			}
			w.trace = append(w.trace, next.text)
			if err := next.run(); err != nil {
				return fmt.Errorf("%s: %w", next.text, err)
			}
			if writes {
				w.ticks++
			}
			if err := w.check.after(w); err != nil {
				return err
			}
			if now := w.server.newest(); next.request == nil || now != version {
				version, idle = now, 0
			}
			if len(w.trace)-last > limit {
				return fmt.Errorf("no rest %d steps after the last move", limit)
			}
			continue
		}
		lossy := slices.IndexFunc(w.process.streams, func(s *stream) bool { return s.lost })
		switch {
		case len(w.late) > 0:
			w.late[0].due = 0
		case lossy >= 0:
			w.trace = append(w.trace, w.process.streams[lossy].name+" begins again")
			if err := w.process.streams[lossy].expire(); err != nil {
				return err
			}
		case idle >= quiet && len(moves) == 0:
			return nil
		case idle < 5*time.Second:
			time.Sleep(time.Second)
			idle += time.Second
		case len(moves) > 0:
			begin = w.ticks - moves[0].At
		default:
			time.Sleep(30 * time.Second)
			idle += 30 * time.Second
		}
	}
}

// pass lets a request pass, with the fault that waits for it.
func (w *world) pass(r *request) error {
	for i, fault := range w.armed {
		if r.writes() || fault.Kind == readFault {
			w.armed = slices.Delete(w.armed, i, i+1)
			w.trace = append(w.trace, "  "+fault.Kind)
			return faults[fault.Kind](w, r, fault)
		}
	}
	if r.writes() && len(w.trace) < w.flaky && mix(w.salt, uint32(len(w.trace)))%3 == 0 {
		w.trace = append(w.trace, "  fails")
		return r.fail(move{Arg: w.salt})
	}
	got, err := w.send(r)
	r.answer <- got
	return err
}

// send sends a request to the API server between the checks of the invariants.
func (w *world) send(r *request) (got answer, err error) {
	if err := w.check.before(w, r); err != nil {
		return got, err
	}
	var was *unstructured.Unstructured
	if r.writes() && r.target.resource != "machines" { // the hub does not watch them: their watch ends with the CRD
		was = w.server.get(r.target)
	}
	if got, err = r.send(w.server); err == nil {
		err = w.check.answered(w, r, got, was)
	}
	return got, err
}

func (w *world) arriveLate(late *request) error {
	w.late = slices.DeleteFunc(w.late, func(other *request) bool { return other == late })
	w.check.late[late.named()] = true
	_, err := w.send(late)
	return err
}
