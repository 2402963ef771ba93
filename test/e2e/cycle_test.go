// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/faults/report"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// atRest is the time without writes that ends a workload.
const atRest = 500 * time.Millisecond

// cycle runs workloads in order, repeatedly, in one cluster.
type cycle struct {
	*harness
	results   *results
	all       []workload
	operator  client.Client    // the cluster version operator
	want      map[string]state // at the end of each undisturbed workload; read-only after runUndisturbed
	sizes     map[string]size  // of each undisturbed workload; likewise
	kind      string           // a part of the paths of the disturbed watches; empty disturbs all
	revision  int              // the number of the desired version
	unmanaged []string         // spec.unmanagedCRDs
	edited    bool             // a user has changed objects since begin
	election  []string         // arguments of processes that compete for the lease
	second    *process         // competes for the lease; nil if none does
	taken     taken
	created   instances
	actors    actors

	mutex   sync.Mutex
	running *process
	run     *report.Run // nil between workloads
	rules   rules
	posted  map[string]int // successful creates of objects in the run, by path
}

// size is the number of writes, without dry runs, and of events by the path of their watch, of a workload.
type size struct {
	writes int
	events map[string]int
}

// eventCount returns the number of all events.
func (s size) eventCount() (sum int) {
	for _, count := range s.events {
		sum += count
	}
	return sum
}

// since returns the counts that are higher than before.
func since(before, now map[string]int) map[string]int {
	out := map[string]int{}
	for path, count := range now {
		if count > before[path] {
			out[path] = count - before[path]
		}
	}
	return out
}

// rules are the conditions that must not occur during a run.
type rules struct {
	available, degraded bool
	recreated           bool // an object is created twice
}

// newCycle prepares a cluster for workloads whose images are pushed to a registry.
func newCycle(t *testing.T, results *results, workloads []workload, images *registry.Registry) *cycle {
	t.Helper()
	c := &cycle{harness: newHarness(t), results: results, all: workloads, want: map[string]state{}, sizes: map[string]size{}}
	c.memory = nil // each run reports it
	c.Registry = images
	c.operator = c.versionOperator()
	c.Proxy.Observe(c.observe)
	c.watchConditions()
	c.begin()
	c.releaseA()
	c.ensureRunning() // from now on there is a process, but it can have ended
	c.stop()
	return c
}

// runUndisturbed runs all workloads without a fault: the other runs are compared with their ends.
func (c *cycle) runUndisturbed() {
	c.Helper()
	for _, w := range c.all {
		writes, events := c.Proxy.Writes(), c.Proxy.Events()
		c.perform(w, point{disturbance: undisturbed})
		c.sizes[w.name] = size{max(1, c.Proxy.Writes()-writes), since(events, c.Proxy.Events())}
	}
}

// begin restores a cluster without installation to its state before the first installation.
func (c *cycle) begin() {
	c.Helper()
	operator, cluster := &configv1.ClusterOperator{}, &v1alpha1.ClusterAPI{}
	operator.Name, cluster.Name = v1alpha1.ClusterOperatorName, v1alpha1.ClusterAPIName
	c.must(client.IgnoreNotFound(c.Delete(c.Context(), operator)))
	c.must(client.IgnoreNotFound(c.Delete(c.Context(), cluster)))
	c.edited, c.unmanaged = false, nil
}

// reapply applies the manifests of the release again: the first version is desired.
func (c *cycle) reapply() {
	c.Helper()
	c.revision = 1
	_, err := fixture.Preparation{}.Apply(c.Context(), c.Cluster.Config)
	c.must(err)
}

func (c *cycle) end() {
	c.Helper()
	if p := c.process(); p.Runs() {
		p.terminate()
	}
}

// disturbed runs the first workloads of a chain in order, each under a fault, and compares their final states. A workload
// begins at the end of the previous one: after a workload that does not end, no other runs.
func (c *cycle) disturbed(chain []workload, points []point) {
	c.Helper()
	c.stop()
	c.begin()
	for i, p := range points {
		if !chain[i].accepts(p, c.sizes[chain[i].name].writes) {
			p = point{disturbance: undisturbed}
		}
		if !c.perform(chain[i], p) {
			c.reset()
			return
		}
	}
	if len(points) < len(chain) {
		c.reset()
	}
}

// accepts reports whether a fault can be injected in a workload with a number of writes.
func (w workload) accepts(p point, writes int) bool {
	switch {
	case p.everyWrite && p.number > writes, p.user && w.unattended, p.needsObjects && w.uninstalls, p.needsNamespace && w.keepsData, w.long && (p.everyWrite || p.everyEvent):
		return false
	}
	return p.name != ""
}

// reset removes all objects before the end of the last workload, including retained and unmanaged CRDs.
func (c *cycle) reset() {
	c.Helper()
	c.stop()
	c.uninstall()
	for _, name := range []string{alphaCRD, instanceCRD} {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(object.CRDVersion)
		crd.SetName(name)
		c.must(client.IgnoreNotFound(c.Delete(context.Background(), crd)))
	}
}

// stop ends the program, if it runs.
func (c *cycle) stop() {
	c.Helper()
	c.endSecond()
	if p := c.process(); p != nil {
		p.Kill()
	}
}

// perform runs a workload under a fault, and reports whether the workload ended.
func (c *cycle) perform(w workload, p point) (ended bool) {
	c.Helper()
	turns <- struct{}{}
	defer func() { <-turns }()
	run, d := &report.Run{Workload: w.name, Fault: p.fault(), Point: p.describe(), Began: time.Now()}, p.disturbance
	c.kind = p.kind
	c.record(run, rules{available: w.stays && !d.interrupts, degraded: !w.degrades && !d.terminal, recreated: !d.user})
	before, reverted := c.uids(), c.reverted()
	watchFaults := c.Proxy.WatchFaults()
	happened := func() int { return c.Proxy.WatchFaults() - watchFaults }
	if d.arm != nil {
		if counted := d.arm(c, p.number); counted != nil {
			happened = counted
		}
	}
	w.act(c)
	err := c.await(w)
	if d.after != nil && err == nil {
		d.after(c)
		err = c.await(w)
	}
	run.Happened = happened()
	c.Proxy.Heal()
	if d.cleanup != nil {
		d.cleanup(c)
	}
	c.forgetTaken()
	if err == nil && full && d.arm != nil {
		err = c.silent(w)
	}
	if err != nil {
		c.finish(fmt.Sprintf("the workload does not end: %v\n%s", err, c.conditions()))
		return false
	}
	if p.mustHappen() && run.Happened == 0 {
		c.problem("the fault was not injected")
	}
	if _, known := c.want[w.name]; !known {
		c.want[w.name] = c.state(before)
	}
	if runtime.GOOS == "linux" {
		if _, run.Memory = c.process().resident(); run.Memory > memoryLimit {
			c.problem(fmt.Sprintf("resident memory of %.0f MiB, want at most %d", run.Memory, memoryLimit))
		}
	}
	c.finish(append(c.differences(w, d, before), c.falselyReverted(d, reverted)...)...)
	return true
}

// reverted returns the messages of the events about changes of others, by the resource version of the event: a repeated
// event changes.
func (c *cycle) reverted() map[string]string {
	c.Helper()
	events, err := c.eventObjects(string(status.DriftCorrected))
	c.must(err)
	messages := map[string]string{}
	for _, event := range events {
		messages[event.ResourceVersion] = event.Message
	}
	return messages
}

// falselyReverted returns the new events about changes of others, if there were no such changes. The original boxcutter
// reverts values that the API server stores in another form.
func (c *cycle) falselyReverted(d disturbance, before map[string]string) (problems []string) {
	c.Helper()
	if d.user || originalBoxcutter() {
		return nil
	}
	for version, message := range c.reverted() {
		if _, known := before[version]; !known {
			problems = append(problems, "an event without a change by another: "+message)
		}
	}
	return problems
}

// differences compares the cluster with the end of an undisturbed run, and the two status objects with each other. The
// status can follow the last write of an object a little later.
func (c *cycle) differences(w workload, d disturbance, before map[string]types.UID) (problems []string) {
	c.Helper()
	c.edited = c.edited || d.user
	compared := func(s state) state {
		if c.edited || originalBoxcutter() { // it writes values that the API server stores in another form; this changes the owners
			s = s.withoutFieldOwners()
		}
		if d.user {
			s.Recreated = nil
		}
		return s
	}
	want := compared(c.want[w.name])
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		problems = c.disagreement()
		if diff := cmp.Diff(want, compared(c.state(before))); diff != "" {
			problems = append(problems, "final state (-undisturbed +now):\n"+diff)
		}
		if len(problems) == 0 || time.Now().After(deadline) {
			return problems
		}
	}
}

// record starts the timeline of a run.
func (c *cycle) record(run *report.Run, rules rules) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.run, c.rules, c.posted = run, rules, map[string]int{}
}

// finish ends a run with its problems.
func (c *cycle) finish(problems ...string) {
	c.Helper()
	c.mutex.Lock()
	run := c.run
	c.run = nil
	c.mutex.Unlock()
	run.Problems = append(run.Problems, problems...)
	c.results.add(*run)
	for _, problem := range run.Problems {
		c.Errorf("%s under %s %s: %s", run.Workload, run.Fault, run.Point, problem)
	}
}

// workload returns the name of the running workload; empty between workloads.
func (c *cycle) workload() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.run == nil {
		return ""
	}
	return c.run.Workload
}

// problem adds a problem to the run.
func (c *cycle) problem(text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.run != nil {
		c.run.Problems = append(c.run.Problems, text)
	}
}

// event adds an event to the timeline.
func (c *cycle) event(kind, text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.run != nil {
		c.run.Events = append(c.run.Events, report.Event{Time: time.Now(), Kind: kind, Text: text})
	}
}

// observe adds writes and faults to the timeline.
func (c *cycle) observe(o faults.Observation) {
	text := fmt.Sprintf("%s %s: %d", o.Verb, o.Path, o.Status)
	switch {
	case o.Watched != "":
		c.event("fault", o.Path+": "+o.Watched)
	case o.Faulty:
		c.event("fault", text)
	case slices.Contains(faults.Writes, o.Verb) && !o.DryRun && !strings.HasSuffix(o.Path, "/events"):
		c.event("write", text)
	}
	if o.Verb == faults.Create && o.Status == http.StatusCreated && !o.DryRun && o.Name != "" {
		c.createdOnce(o.Path + "/" + o.Name)
	}
}

// temporary are the names of objects that the installer creates for one pass or one teardown, and deletes at its end: an
// admission policy, and a permission, each with its binding. The next pass after a failed one creates them again.
var temporary = []string{deletionPolicy, "openshift-capi-installer-instances"}

// createdOnce adds a problem to the run if the installer creates an object a second time: then it has deleted the object in
// between. The admission policy is probed with other names.
func (c *cycle) createdOnce(path string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.run == nil || slices.Contains(temporary, path[strings.LastIndex(path, "/")+1:]) {
		return
	}
	if c.posted[path]++; c.posted[path] == 2 && c.rules.recreated {
		c.run.Problems = append(c.run.Problems, path+" was created twice")
	}
}

// watchConditions adds the conditions of ClusterAPI to the timeline until the test ends.
func (c *cycle) watchConditions() {
	c.Helper()
	watching, err := client.NewWithWatch(c.Cluster.Config, client.Options{Scheme: c.Scheme()})
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	watcher, err := watching.Watch(ctx, &v1alpha1.ClusterAPIList{})
	if err != nil {
		cancel()
		c.Fatal(err)
	}
	done := make(chan struct{})
	c.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		last := map[string]string{}
		for ctx.Err() == nil {
			for event := range watcher.ResultChan() {
				if cluster, ok := event.Object.(*v1alpha1.ClusterAPI); ok {
					c.conditionsChanged(cluster, last)
				}
			}
			// The API server ends a watch after half an hour or more.
			if again, err := watching.Watch(ctx, &v1alpha1.ClusterAPIList{}); err == nil {
				watcher = again
			} else {
				time.Sleep(100 * time.Millisecond) // the loop tries again
			}
		}
	}()
}

// conditionsChanged records changed conditions and violated rules.
func (c *cycle) conditionsChanged(cluster *v1alpha1.ClusterAPI, last map[string]string) {
	for _, condition := range cluster.Status.Conditions {
		now := fmt.Sprintf("%s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
		if last[condition.Type] == now {
			continue
		}
		last[condition.Type] = now
		c.event("condition", now)
		c.check(condition.Type, condition.Status == "True", now)
	}
}

// check adds a problem to the run if a condition violates a rule.
func (c *cycle) check(kind string, isTrue bool, text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.run == nil {
		return
	}
	if c.rules.available && kind == "Available" && !isTrue || c.rules.degraded && kind == "Degraded" && isTrue {
		c.run.Problems = append(c.run.Problems, "during the run: "+text)
	}
}

func (c *cycle) process() *process {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.running
}

// crash kills the program, and waits for its end, so that await restarts it.
func (c *cycle) crash() {
	c.event("process", "killed")
	c.process().Kill()
}

// ensureRunning starts the program unless it runs.
func (c *cycle) ensureRunning() {
	c.Helper()
	if p := c.process(); p != nil && p.Runs() {
		return
	}
	c.event("process", "started")
	p := c.start("4.22.0", c.election...)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.running = p
}

// silence is the time during which a settled installer must not write.
const silence = 10 * time.Second

// silent returns an error if the installer keeps writing after a workload. A lost event has its effect some seconds
// later, because the informer backs off before it lists again: this delays the end of writes, but does not prevent it.
func (c *cycle) silent(w workload) error {
	c.Helper()
	writes := 0
	for range 4 {
		if err := c.await(w); err != nil {
			return err
		}
		before := c.Proxy.Writes()
		<-turns
		time.Sleep(silence)
		turns <- struct{}{}
		if writes = c.Proxy.Writes() - before; writes == 0 && len(c.disagreement()) == 0 {
			return nil
		}
	}
	if writes == 0 {
		return nil // the status objects differ: this is compared later
	}
	return fmt.Errorf("%d writes in %s at rest", writes, silence)
}

// await waits until a workload has reached its end and writes have stopped.
func (c *cycle) await(w workload) error {
	c.Helper()
	deadline := time.Now().Add(3 * patience)
	writes, since := -1, time.Now()
	ended := func() bool { // also notes the time of the last write
		if now := c.Proxy.Writes(); now != writes || c.Proxy.Frozen() {
			writes, since = now, time.Now()
		}
		return !c.process().Runs()
	}
	for {
		c.ensureRunning()
		c.answerRequirements()
		err := errors.Join(w.done(c), c.returnObjects())
		if err != nil {
			since = time.Now()
		}
		if !ended() && time.Since(since) > atRest {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("waited %s; writes ended %s ago", 3*patience, time.Since(since).Round(time.Millisecond)))
		}
		fixture.Pause(ended)
	}
}

// freeze freezes watches until three seconds after the first event that they hold back.
func (c *cycle) freeze() {
	before := c.Proxy.WatchFaults()
	c.Proxy.Freeze(c.kind)
	go func() {
		defer c.Proxy.Thaw()
		for end := time.Now().Add(30 * time.Second); c.Proxy.WatchFaults() == before && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
	}()
}

// uids returns the UIDs of the installed objects.
func (h *harness) uids() map[string]types.UID {
	h.Helper()
	found := map[string]types.UID{}
	for name, object := range h.installed() {
		found[name] = object.GetUID()
	}
	return found
}

// clusterOperator reads the ClusterOperator.
func (c *cycle) clusterOperator() (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{}
	return operator, c.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator)
}

// answerRequirements simulates the checker of CompatibilityRequirements: every CRD is compatible.
func (c *cycle) answerRequirements() {
	c.Helper()
	if len(c.unmanaged) == 0 {
		return // only unmanaged CRDs have requirements
	}
	list := requirementList()
	if err := c.List(context.Background(), list); err != nil {
		return // the next round tries again if the API server is unavailable
	}
	for i := range list.Items {
		requirement := &list.Items[i]
		conditions := []map[string]any{}
		for kind, status := range map[string]string{"Admitted": "True", "Compatible": "True", "Progressing": "False"} {
			conditions = append(conditions, map[string]any{
				"type": kind, "status": status, "reason": "Tested", "message": "the CRD is compatible",
				"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": requirement.GetGeneration(),
			})
		}
		if answered(requirement) {
			continue
		}
		crd, _, _ := strings.Cut(requirement.GetName(), "-")
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions, "crdName": crd}})
		c.must(err)
		_ = c.Status().Patch(context.Background(), requirement, client.RawPatch(types.MergePatchType, patch)) // or in the next round
	}
}

// reason returns the reason of a condition of ClusterAPI, with its message.
func (c *cycle) reason(kind string) (reason, message string, err error) {
	cluster, err := c.clusterAPI()
	if err != nil {
		return "", "", err
	}
	if condition := meta.FindStatusCondition(cluster.Status.Conditions, kind); condition != nil {
		return condition.Reason, condition.Message, nil
	}
	return "", "", nil
}
