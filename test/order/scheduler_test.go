// SPDX-License-Identifier: Apache-2.0

package order

import (
	"fmt"
	"net/http"
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

	process   *process
	processes int

	mu       sync.Mutex // guards requests, and the streams of processes
	requests []*request
	late     []*lateWrite
	// lateWrites is the time until these can arrive. A later process knows it from the lease.
	lateWrites time.Time

	waiting map[string]int // sequence number of each waiting step
	arrived int
	trace   []string
	logs    []string

	slow     map[string]int // actor -> step until which others are preferred
	shuffled int            // step until which the order is shuffled
	salt     uint32         // of the shuffle
	armed    []move         // faults that wait for a request
	quick    bool           // the kubelet does not wait until the programs wait for it
	recent   *request       // the write that a process is about to send, or has sent last
	versions []int64        // resource version of the API server at each step
	ticks    int            // one before and one after each write of a process
	flaky    int            // step until which a third of the writes fail
	patience int            // seconds in which steps of delayed actors wait although nothing else happens
	// forbidden is a resource of which each request is rejected until nothing else happens.
	forbidden string
	backup    map[string]*unstructured.Unstructured
	check     *checker
}

// lateWrite is a write of a former leader, which arrives when the step is reached, or nothing else happens.
type lateWrite struct {
	*request
	due int
}

func (w *world) arrive(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
}

func (w *world) leave(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = slices.DeleteFunc(w.requests, func(other *request) bool { return other == r })
}

func (w *world) event(body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check.event(body)
}

func (w *world) logged(actor, message string, err error, values []any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, fmt.Sprintf("%d %s: %s %v %v", len(w.trace), actor, message, err, values))
}

// step is a request, a watch event, or an action that can be next.
type step struct {
	actor, text string
	number      int // in the order of arrival
	run         func() error
	request     *request // nil for others
	stream      *stream
}

// steps returns the steps that can be next, in the order of their arrival.
func (w *world) steps() []step {
	w.mu.Lock()
	var found []step
	requests := slices.Clone(w.requests)
	streams := slices.DeleteFunc(slices.Clone(w.process.streams), func(s *stream) bool { return s.end.Err() != nil })
	w.process.streams = slices.Clone(streams)
	w.mu.Unlock()
	for _, r := range requests {
		found = append(found, step{actor: r.actor, text: r.String(), request: r, run: func() error {
			w.leave(r)
			return w.pass(r)
		}})
	}
	for _, s := range streams {
		if kind, c := s.pending(); c != nil {
			found = append(found, step{actor: s.name, text: s.name + ": " + kind + " " + c.object.GetName(), stream: s, run: s.deliver})
		}
	}
	for _, r := range w.late {
		if len(w.trace) >= r.due {
			found = append(found, step{actor: "former leader", text: "former leader: " + r.String(), run: func() error { return w.arriveLate(r) }})
		}
	}
	found = append(found, w.machinery()...)
	slices.SortFunc(found, func(a, b step) int { return strings.Compare(a.text, b.text) })
	now := map[string]int{}
	for i := range found {
		key := found[i].text
		for n := 0; ; n++ {
			if _, taken := now[key]; !taken {
				break
			}
			key = fmt.Sprint(found[i].text, " ", n)
		}
		number, known := w.waiting[key]
		if !known {
			w.arrived++
			number = w.arrived
		}
		now[key], found[i].number = number, number
	}
	w.waiting = now
	slices.SortFunc(found, func(a, b step) int { return a.number - b.number })
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

// run runs steps and moves, whose ticks count from now, until the world is at rest; at most limit steps after the last move.
func (w *world) run(moves []move, limit int) error {
	begin, last, idle := w.ticks, len(w.trace), time.Duration(0)
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
			if w.versions = append(w.versions, w.server.newest()); next.request == nil || len(w.versions) < 2 || w.versions[len(w.versions)-1] != w.versions[len(w.versions)-2] {
				idle = 0
			}
			if len(w.trace)-last > limit {
				return fmt.Errorf("no rest %d steps after the last move", limit)
			}
			continue
		}
		lossy := slices.IndexFunc(w.process.streams, func(s *stream) bool { return s.lost && s.end.Err() == nil })
		switch {
		case len(w.late) > 0:
			w.late[0].due = 0
		case lossy >= 0:
			w.trace = append(w.trace, w.process.streams[lossy].name+" begins again")
			w.process.streams[lossy].expire()
		case idle >= quiet && w.forbidden != "":
			w.forbidden, idle = "", 0
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
		if apply := faults[fault.What]; r.writes() || apply.reads {
			w.armed = slices.Delete(w.armed, i, i+1)
			w.trace = append(w.trace, "  "+fault.What)
			return apply.run(w, r, fault)
		}
	}
	if r.target.resource == w.forbidden {
		w.trace = append(w.trace, "  forbidden")
		r.answer <- result{answer: status(http.StatusForbidden, "Forbidden", "a role was taken away")}
		return nil
	}
	if r.writes() && len(w.trace) < w.flaky && mix(w.salt, uint32(len(w.trace)))%3 == 0 {
		w.trace = append(w.trace, "  fails")
		r.answer <- failure(r, move{Arg: w.salt})
		return nil
	}
	got, err := w.send(r)
	r.answer <- got
	return err
}

// send sends a request to the API server between the checks of the invariants.
func (w *world) send(r *request) (result, error) {
	if err := w.check.before(w, r); err != nil {
		return result{}, err
	}
	var was *unstructured.Unstructured
	if r.writes() && r.target.resource != "machines" { // the hub does not watch them: their watch ends with the CRD
		was = w.server.get(r.target.collection(), r.target.namespace, r.target.name)
	}
	got := r.send(w.server)
	if got.err != nil {
		return got, got.err
	}
	return got, w.check.answered(w, r, got.answer, was)
}

func (w *world) arriveLate(late *lateWrite) error {
	w.late = slices.DeleteFunc(w.late, func(other *lateWrite) bool { return other == late })
	w.check.late[late.named()] = true
	_, err := w.send(late.request)
	return err
}
