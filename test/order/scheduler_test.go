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

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	lateWrites time.Time // until which writes of former leaders can arrive; a later process knows it from the lease

	waiting map[string]int // the step at which each waiting step was there
	trace   []string

	slow     map[string]int // actor -> step until which others are preferred
	armed    []move         // faults that wait for a request
	recent   *request       // the write that a process is about to send, or has sent last
	ticks    int            // one before and one after each write of a process
	patience int            // seconds in which steps of delayed actors wait although nothing else happens
	backup   map[string]*unstructured.Unstructured
	check    *checker
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
		if len(w.trace) >= r.due {
			found = append(found, step{actor: r.actor, text: r.String(), request: r, run: func() error {
				w.leave(r)
				return w.pass(r)
			}})
		}
	}
	w.process.streams = slices.DeleteFunc(w.process.streams, func(s *stream) bool { return s.ended })
	for _, s := range w.process.streams {
		if kind, c := s.pending(); c != nil {
			found = append(found, step{actor: s.name, text: s.name + ": " + kind + " " + c.object.GetName(), run: s.deliver})
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

// machinery returns the steps of the kubelet, the garbage collector and the operator that injects the CA of a conversion.
func (w *world) machinery() (found []step) {
	for _, collection := range collections {
		for _, o := range w.all(collection) {
			if o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				path := collection + "/" + o.GetName()
				found = append(found, step{actor: "garbage collector", text: "garbage collector: " + o.GetName() + " is gone", run: func() error {
					return w.admin("PATCH", path, `{"metadata":{"finalizers":null}}`)
				}})
			}
		}
	}
	if crd := typed[apiextensionsv1.CustomResourceDefinition](w.at(crdPath)); crd != nil && crd.DeletionTimestamp == nil && crd.Spec.Conversion.Webhook != nil && crd.Spec.Conversion.Webhook.ClientConfig.CABundle == nil {
		found = append(found, step{actor: "service-ca", text: "service-ca: writes the CA of " + machinesCRD, run: func() error {
			_, err := w.server.send(w.server.admin, "PATCH", crdPath+"?fieldManager=service-ca-operator", as(mergePatch), []byte(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"`+w.server.ca+`"}}}}}`))
			return err
		}})
	}
	for _, o := range w.all(managers) {
		if d := typed[appsv1.Deployment](o); !isReady(d) {
			replicas, ready := *d.Spec.Replicas, d.Status.ReadyReplicas
			all, available, what, is := replicas+ready, ready, " has new pods", "True"
			if d.Status.ObservedGeneration == d.Generation {
				all, available, what = replicas, replicas, " is ready"
			} else if ready == 0 {
				is = "False"
			}
			found = append(found, step{actor: "kubelet", text: "kubelet: " + d.GetName() + what, run: func() error {
				status := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%[4]d,"availableReplicas":%[4]d,"unavailableReplicas":%[5]d,"conditions":[{"type":"Available","status":%[6]q,"reason":"MinimumReplicas"}]}}`, d.Generation, all, replicas, available, all-available, is)
				got, err := w.server.send(w.server.admin, "PATCH", managers+"/"+d.GetName()+"/status", as(mergePatch), []byte(status))
				if err == nil && !got.ok() && got.code != 404 {
					err = fmt.Errorf("kubelet: %s", got.body)
				}
				return err
			}})
		}
	}
	return found
}

// isReady reports whether all pods of a Deployment are new and ready.
func isReady(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
}

// choose returns the first step of an actor that does not have to wait for others; else the first.
func (w *world) choose(steps []step) step {
	return steps[max(0, slices.IndexFunc(steps, func(s step) bool { return w.slow[s.actor] <= len(w.trace) }))]
}

// quiet is the time without a write after which the world is at rest.
const quiet = 3 * time.Minute

// limit is the number of steps without rest after the last move.
const limit = 2500

// run runs steps and moves until the world is at rest.
func (w *world) run(moves []move) error {
	last, idle, version := len(w.trace), time.Duration(0), int64(0)
	for {
		synctest.Wait()
		for len(moves) > 0 && moves[0].At <= w.ticks {
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
			if now := w.server.version(0); next.request == nil || now != version {
				version, idle = now, 0
			}
			if len(w.trace)-last > limit {
				return fmt.Errorf("no rest %d steps after the last move", limit)
			}
			continue
		}
		lossy := slices.IndexFunc(w.process.streams, func(s *stream) bool { return s.lost })
		switch {
		case len(w.requests) > 0:
			w.requests[0].due = 1
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
			w.ticks = moves[0].At
		default:
			time.Sleep(30 * time.Second)
			idle += 30 * time.Second
		}
	}
}

// pass lets a request pass, with the fault that waits for it.
func (w *world) pass(r *request) error {
	w.check.unseen = w.check.unseen || r.process != w.process
	for i, m := range w.armed {
		if r.process == w.process && (r.writes() || m.Kind == "error") {
			w.armed = slices.Delete(w.armed, i, i+1)
			w.trace = append(w.trace, "  "+m.Kind)
			return faults[m.Kind].meet(w, r, m)
		}
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
	if r.writes() {
		was = w.server.get(r.target)
	}
	if got, err = w.server.send(w.server.installer, r.Method, r.URL.RequestURI(), r.Header, r.body); err == nil {
		err = w.check.answered(w, r, got, was)
	}
	return got, err
}
