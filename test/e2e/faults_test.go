// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/faults/report"
	"github.com/capi-installer/capi-installer/test/registry"
)

// disturbance is a fault during a workload.
type disturbance struct {
	name string
	// everyWrite is true if there is one run for each write of the workload.
	everyWrite bool
	// everyEvent is true if there is one run for each event of the workload.
	everyEvent bool
	// watches is true for faults of watches: one run covers the watches of all kinds, and one the watches of one kind.
	watches bool
	// needsEvents is true for faults that only events have: the one kind is one with events.
	needsEvents bool
	// user is true for changes by a user during the workload: the final content is the same, but objects can be
	// recreated, with other requests.
	user bool
	// terminal is true for faults that are reported as terminal: Degraded can be True.
	terminal bool
	// interrupts is true for faults that make objects unavailable: Available can be False.
	interrupts bool
	// needsObjects is true for faults that are impossible during an uninstallation.
	needsObjects bool
	// needsNamespace is true for faults that delete the data of users in the namespace of the providers.
	needsNamespace bool
	// arm prepares the fault before the workload begins, for its nth write if
	// everyWrite or user, and for its nth event if everyEvent. The returned function
	// returns the number of injected faults; nil for a fault of watches.
	arm func(c *cycle, n int) (happened func() int)
	// after disturbs the end of the workload; can be nil.
	after func(c *cycle)
	// cleanup ends the disturbance after the workload, in addition to Heal; can be nil.
	cleanup func(c *cycle)
}

// undisturbed is a run without a fault.
var undisturbed = disturbance{name: "none"}

// point is a fault, and the number of the write or event that it is injected at. The zero value is no fault.
type point struct {
	disturbance
	number int
	// kind is a part of the paths of the affected watches; empty affects all watches.
	kind string
}

// fault returns the name of the fault, for the report.
func (p point) fault() string {
	if p.kind != "" {
		return p.name + ", one kind"
	}
	return p.name
}

// describe returns the moment or the kind of the fault, for the report.
func (p point) describe() string {
	switch {
	case p.everyWrite, p.user:
		return fmt.Sprintf("write %d", p.number)
	case p.everyEvent:
		return fmt.Sprintf("event %d", p.number)
	}
	return p.kind
}

// mustHappen reports whether a run without an injection of the fault proves nothing: each workload writes, reads, and
// has events.
func (p point) mustHappen() bool {
	return p.arm != nil && p.kind == "" && !p.user && !p.everyWrite && !p.everyEvent
}

// watched are parts of the paths of the watches of the program, one for each kind.
var watched = []string{
	"/clusterapis", "/clusteroperators", "/namespaces/" + v1alpha1.OpenShiftNamespaces.Operator + "/configmaps", "/customresourcedefinitions", "/deployments",
	"/infrastructures", "/namespaces/" + namespace + "/configmaps", "/validatingadmissionpolicies", "/serviceaccounts", "/services",
	"/clusterroles", "/clusterrolebindings", "/roles", "/rolebindings", "/mutatingwebhookconfigurations", "/validatingwebhookconfigurations",
	"/validatingadmissionpolicybindings", "/compatibilityrequirements", "/proxies", "/apiservers", "/images", "/imagedigestmirrorsets",
	"/imagetagmirrorsets", "/imagecontentsourcepolicies", "/clusterimagepolicies", "/imagepolicies", "/secrets",
	"/namespaces/openshift-config/configmaps",
}

// disturbances are all faults of the suite.
func disturbances() []disturbance {
	all := []disturbance{
		{name: "crash before a write", everyWrite: true, arm: func(c *cycle, n int) func() int {
			return c.failWrite(n, faults.Fault{Do: c.crash, Reset: true})
		}},
		{name: "crash after a write", everyWrite: true, arm: func(c *cycle, n int) func() int {
			return c.failWrite(n, faults.Fault{After: c.crash, Lose: true})
		}},
		{name: "frozen watches", watches: true, needsEvents: true, arm: func(c *cycle, _ int) func() int {
			c.freeze()
			return nil
		}},
		{name: "watches cut and expired", watches: true, arm: func(c *cycle, _ int) func() int {
			c.Proxy.CutWatches(c.kind)
			gone := c.Proxy.Fail(faults.Fault{Verbs: []string{faults.Watch}, Path: c.kind, Every: 3, Times: 60, Status: http.StatusGone})
			cut := c.Proxy.Fail(faults.Fault{Verbs: []string{faults.Watch}, Path: c.kind, Times: 120, Cut: 300 * time.Millisecond})
			return func() int { return gone() + cut() }
		}},
		{name: "API server down", arm: func(c *cycle, _ int) func() int {
			down := 5 * time.Second
			if full {
				down = time.Minute
			}
			var downs atomic.Int64
			time.AfterFunc(500*time.Millisecond, func() {
				if c.Proxy.Down() == nil {
					downs.Add(1)
				}
				<-turns
				time.AfterFunc(down, func() {
					_ = c.Proxy.Up() // first: a turn can come minutes later
					turns <- struct{}{}
				})
			})
			return func() int { return int(downs.Load()) }
		}},
	}
	return slices.Concat(all, apiFaults(), eventFaults(), userFaults(), processFaults(), actorFaults(), machineFaults())
}

// machineFaults are faults of the machines of the control plane and the installer.
func machineFaults() []disturbance {
	return []disturbance{
		{name: "etcd out of space", arm: func(c *cycle, _ int) func() int {
			return c.Proxy.Fail(faults.Fault{
				Verbs: []string{faults.Create, faults.Update, faults.Patch}, SkipDryRuns: true, Times: 8,
				Status: http.StatusInternalServerError, Message: "etcdserver: mvcc: database space exceeded",
			})
		}},
		{name: "cache directory not writable", arm: func(c *cycle, _ int) func() int {
			c.blockCache()
			return once
		}, cleanup: (*cycle).unblockCache},
		{name: "clock an hour ahead", terminal: true, arm: func(c *cycle, n int) func() int {
			return c.failWrite(n, faults.Fault{Do: func() { c.moveTimes(-time.Hour) }})
		}},
		{name: "clock an hour behind", arm: func(c *cycle, n int) func() int {
			return c.failWrite(n, faults.Fault{Do: func() { c.moveTimes(time.Hour) }})
		}},
	}
}

// eventFaults affect single events of watches.
func eventFaults() []disturbance {
	of := func(name string, fault faults.EventFault) disturbance {
		return disturbance{name: name, watches: true, needsEvents: true, arm: func(c *cycle, _ int) func() int {
			armed := fault
			armed.Path = c.kind
			if few := c.sizes[c.workload()].eventCount() / 2; armed.Every > few { // a workload can have six events
				armed.Every = few
			}
			c.Proxy.FailEvents(armed)
			return nil
		}}
	}
	return []disturbance{
		{name: "bookmarks lost", watches: true, arm: func(c *cycle, _ int) func() int {
			c.Proxy.FailEvents(faults.EventFault{Effect: faults.DropBookmarks, Path: c.kind})
			c.Proxy.CutWatches(c.kind) // without bookmarks, a watch resumes from a version that is gone
			return nil
		}},
		of("events delayed", faults.EventFault{Effect: faults.DelayEvent, Every: 7, Times: 20}),
		of("events lost", faults.EventFault{Effect: faults.DropEvent, Every: 5, Times: 20}),
		of("events repeated", faults.EventFault{Effect: faults.RepeatEvent}),
		{name: "one event lost", everyEvent: true, arm: func(c *cycle, n int) func() int {
			return c.Proxy.FailEvents(faults.EventFault{Effect: faults.DropEvent, Every: n, Times: 1})
		}},
	}
}

// userFaults are changes by a user at the nth write of the installer.
func userFaults() []disturbance {
	atWrite := func(change func(c *cycle)) func(*cycle, int) func() int {
		return func(c *cycle, n int) func() int {
			return c.failWrite(n, faults.Fault{Do: func() { change(c) }})
		}
	}
	return []disturbance{
		{name: "user deletes objects", user: true, interrupts: true, arm: atWrite((*cycle).deleteObjects)},
		{name: "user edits objects", user: true, arm: atWrite((*cycle).editObjects)},
		{name: "user edits the status", user: true, arm: atWrite((*cycle).editStatus)},
		{name: "user edits revision ConfigMaps", user: true, arm: atWrite((*cycle).editRevisions)},
		{name: "user deletes revision ConfigMaps", user: true, needsObjects: true, arm: atWrite((*cycle).deleteRevisions)},
		{name: "user removes the marks", user: true, terminal: true, needsObjects: true, arm: atWrite((*cycle).removeMarks)},
		{name: "another owner takes objects", user: true, terminal: true, needsObjects: true, arm: atWrite((*cycle).takeObjects)},
		{name: "user creates instances", user: true, arm: atWrite((*cycle).createInstances), after: (*cycle).checkInstances},
		{name: "images.json rewritten 100 times", arm: func(*cycle, int) func() int { return once }, after: (*cycle).rewriteImages},
	}
}

// processFaults are faults of several processes, and of their lease.
func processFaults() []disturbance {
	return []disturbance{
		{name: "two processes without a lease", arm: func(c *cycle, _ int) func() int {
			c.startSecond()
			return c.Proxy.Fail(faults.Fault{ // a process decides and writes while the decision of the other is on its way
				Verbs: []string{faults.Update}, Path: "/clusterapis/cluster/status", Every: 2, Times: 10, Delay: 1500 * time.Millisecond,
			})
		}, cleanup: (*cycle).endSecond},
		{name: "the leader crashes", arm: func(c *cycle, n int) func() int {
			c.elect()
			c.startSecond()
			return c.failWrite(n, faults.Fault{Do: c.crash})
		}, cleanup: (*cycle).endElection},
		{name: "the leader is paused", arm: func(c *cycle, n int) func() int {
			c.elect()
			c.startSecond()
			return c.failWrite(n, faults.Fault{Do: c.pauseLeader})
		}, cleanup: (*cycle).endElection},
		{name: "the lease is lost during a write", arm: func(c *cycle, n int) func() int {
			c.elect()
			c.ensureRunning()
			return c.failWrite(n, faults.Fault{Delay: 6 * time.Second, Do: func() {
				c.Proxy.Fail(faults.Fault{Path: "/leases", Times: 10, Status: http.StatusInternalServerError})
			}})
		}, cleanup: (*cycle).endElection},
	}
}

func once() int { return 1 }

// failWrite injects a fault into the nth write.
func (c *cycle) failWrite(n int, fault faults.Fault) (happened func() int) {
	fault.Verbs, fault.SkipDryRuns, fault.Every, fault.Times = faults.Writes, true, n, 1
	return c.Proxy.Fail(fault)
}

// apiFaults fail the first attempt of each write, or the first read of each path.
func apiFaults() (all []disturbance) {
	for _, f := range []struct {
		name     string
		verbs    []string
		fault    faults.Fault
		terminal bool
	}{
		{"409 at writes", faults.Writes, faults.Fault{Status: http.StatusConflict}, false},
		{"429 at writes", faults.Writes, faults.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second}, false},
		{"500 at writes", faults.Writes, faults.Fault{Status: http.StatusInternalServerError}, false},
		{"503 at writes", faults.Writes, faults.Fault{Status: http.StatusServiceUnavailable}, false},
		{"504 at writes", faults.Writes, faults.Fault{Status: http.StatusGatewayTimeout}, false},
		{"403 at writes", faults.Writes, faults.Fault{Status: http.StatusForbidden}, true}, // an uninstall reports a missing permission at once, also below
		{"413 at writes", faults.Writes, faults.Fault{Status: http.StatusRequestEntityTooLarge}, true},
		{"422 at writes", faults.Writes, faults.Fault{Status: http.StatusUnprocessableEntity}, true},
		{"504 after writes", faults.Writes, faults.Fault{Status: http.StatusGatewayTimeout, Late: true}, false},
		{"reset before writes", faults.Writes, faults.Fault{Reset: true}, false},
		{"reset after writes", faults.Writes, faults.Fault{Lose: true}, false},
		{"403 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusForbidden}, true},
		{"429 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second}, false},
		{"500 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusInternalServerError}, false},
		{"504 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusGatewayTimeout}, false},
		{"reset after reads", []string{faults.Get}, faults.Fault{Lose: true}, false},
		{"503 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusServiceUnavailable}, false},
		{"reset of reads", []string{faults.Get}, faults.Fault{Reset: true}, false},
	} {
		f.fault.Verbs, f.fault.EachOnce, f.fault.EachFirst = f.verbs, f.verbs[0] == faults.Get, f.verbs[0] != faults.Get
		all = append(all, disturbance{name: f.name, terminal: f.terminal, arm: func(c *cycle, _ int) func() int { return c.Proxy.Fail(f.fault) }})
	}
	return append(all, disturbance{name: "kinds not found", arm: func(c *cycle, _ int) func() int {
		happened := c.Proxy.Fail(faults.Fault{Verbs: []string{faults.Get}, Path: "/api*", EachOnce: true, Status: http.StatusNotFound})
		c.crash() // a running process has cached the kinds
		return happened
	}})
}

// chosenDisturbances are those whose name matches the regular expression FAULTS; all without it.
func chosenDisturbances() []disturbance {
	chosen := regexp.MustCompile(os.Getenv("FAULTS"))
	return slices.DeleteFunc(disturbances(), func(d disturbance) bool { return !chosen.MatchString(d.name) })
}

// clusters is the number of clusters that share the passes of a complete run. Each needs about one GiB of memory.
const clusters = 16

// turns are the clusters that run a workload at the same time; the others wait for silence, for an API server that is
// down, or for their turn. Most faults wait for retries: with ten clusters and eight turns, half of the CPU time of two cores is idle.
var turns = make(chan struct{}, 12)

// crashStep is the distance between the writes that crash the program in a complete run. FAULTS_SEED chooses the first
// of them: as many consecutive seeds as the distance cover every write.
func crashStep() int {
	step, err := strconv.Atoi(os.Getenv("FAULTS_STEP"))
	if err != nil {
		return 1
	}
	return max(1, step)
}

// TestFaults runs every workload under every fault: its final state must equal an undisturbed run's. Without
// E2E=full it runs one fault per workload: of all workloads, chosen by FAULTS_SEED, or always the same ones of the
// sampled workloads. With E2E=full, FAULTS_SEED chooses the starting writes of the faults with one run per workload.
func TestFaults(t *testing.T) {
	results := &results{}
	t.Cleanup(func() { results.write(t) })
	if !full {
		sample(t, results)
		return
	}
	t.Parallel()
	left := &passes{images: registry.New(t, registry.Options{})}
	for n := range clusters {
		t.Run(fmt.Sprintf("cluster %d", n+1), func(t *testing.T) { complete(t, results, left) })
	}
}

// pass is one run through the first workloads of a chain, each under a fault.
type pass struct {
	chain  []workload
	points []point
}

// eventStep is the distance between the events that are lost: every one with a crash at every write, otherwise ten times
// the distance between the crashes.
func eventStep() int {
	if crashStep() == 1 {
		return 1
	}
	return 10 * crashStep()
}

// seed is FAULTS_SEED; 0 without it.
func seed() int {
	seed, _ := strconv.Atoi(os.Getenv("FAULTS_SEED"))
	return seed
}

// passes are those that no cluster has begun, and the undisturbed workloads of the first cluster. All clusters have the same
// images, so the workloads end the same in each.
type passes struct {
	images  *registry.Registry
	planned sync.Once
	left    chan pass
	want    map[string]state
	sizes   map[string]size
}

// complete begins the next pass until none is left.
func complete(t *testing.T, results *results, shared *passes) {
	c := newCycle(t, results, workloads, shared.images)
	shared.planned.Do(func() {
		c.runUndisturbed()
		shared.want, shared.sizes, shared.left = c.want, c.sizes, plan(c.all, c.sizes)
	})
	c.want, c.sizes = shared.want, shared.sizes
	for p := range shared.left {
		c.disturbed(p.chain, p.points)
		results.write(t)
	}
	c.end()
}

// plan returns the passes of a complete run, given the sizes of the workloads.
func plan(all []workload, sizes map[string]size) chan pass {
	random := rand.New(rand.NewPCG(uint64(seed()), 1))
	var planned []pass
	for _, chain := range chains(all) {
		planned = append(planned, alternating(passesOf(chain, sizes, random))...)
	}
	left := make(chan pass, len(planned))
	for _, p := range planned {
		left <- p
	}
	close(left)
	return left
}

// alternating takes passes from both ends: crashes come last and need the CPU, and most other faults wait.
func alternating(all []pass) (mixed []pass) {
	for i := range all {
		if i%2 == 0 {
			mixed = append(mixed, all[i/2])
		} else {
			mixed = append(mixed, all[len(all)-1-i/2])
		}
	}
	return mixed
}

// chains splits workloads at those that begin in an empty cluster.
func chains(all []workload) (chains [][]workload) {
	for _, w := range all {
		if w.first {
			chains = append(chains, nil)
		}
		chains[len(chains)-1] = append(chains[len(chains)-1], w)
	}
	return chains
}

// passesOf returns the passes through a chain: each workload has the next of its faults, and a pass ends after the last
// workload that has one left.
func passesOf(chain []workload, sizes map[string]size, random *rand.Rand) (all []pass) {
	for i, w := range chain {
		for n, p := range points(w, sizes[w.name], random) {
			if n == len(all) {
				all = append(all, pass{chain: chain})
			}
			without := make([]point, i-len(all[n].points)) // for the workloads before that have no other fault
			all[n].points = append(append(all[n].points, without...), p)
		}
	}
	return all
}

// kindOf returns the kind whose watches alone are disturbed in a workload. Workloads and consecutive seeds have
// different ones.
func kindOf(w workload, kinds []string) string {
	at := slices.IndexFunc(workloads, func(other workload) bool { return other.name == w.name })
	return kinds[(seed()*len(workloads)+at)%len(kinds)]
}

// withEvents returns the kinds that have events in an undisturbed workload; all kinds if none has.
func (s size) withEvents() []string {
	kinds := slices.DeleteFunc(slices.Clone(watched), func(kind string) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(s.events)), func(path string) bool { return strings.Contains(path, kind) })
	})
	if len(kinds) == 0 {
		return watched
	}
	return kinds
}

// points returns all faults of a workload: one of each kind at a random write, and then those at every event and every
// write, or at each nth one.
func points(w workload, s size, random *rand.Rand) (all []point) {
	var crashes []point
	for _, d := range chosenDisturbances() {
		switch {
		case d.everyWrite:
			crashes = append(crashes, each(d, s.writes, crashStep())...)
		case d.everyEvent:
			all = append(all, each(d, s.eventCount(), eventStep())...)
		default:
			all = append(all, point{disturbance: d, number: s.someWrite(d, random)})
		}
		if d.watches {
			kinds := watched
			if d.needsEvents {
				kinds = s.withEvents()
			}
			all = append(all, point{disturbance: d, number: 1, kind: kindOf(w, kinds)})
		}
	}
	return append(all, crashes...)
}

// someWrite returns the number of a random write. If the fault must be injected, it is one of the first two thirds: a run
// can have fewer writes than an undisturbed one, because changes of the status are merged.
func (s size) someWrite(d disturbance, random *rand.Rand) int {
	if d.user {
		return 1 + random.IntN(s.writes)
	}
	return 1 + random.IntN(max(1, s.writes*2/3))
}

// each returns a fault at each nth of the writes or events. The seed chooses the first.
func each(d disturbance, of, step int) (all []point) {
	for n := 1 + seed()%step; n <= of; n += step {
		all = append(all, point{disturbance: d, number: n})
	}
	return all
}

// sample runs each workload under one fault.
func sample(t *testing.T, results *results) {
	chosen := slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool { return !w.sampled })
	if os.Getenv("FAULTS_SEED") != "" {
		chosen = workloads
	}
	random := rand.New(rand.NewPCG(uint64(seed()), 0))
	c := newCycle(t, results, chosen, registry.New(t, registry.Options{}))
	c.runUndisturbed()
	var chosenPoints []point
	for _, w := range chosen {
		all := points(w, size{writes: 1, events: c.sizes[w.name].events}, random)
		p := all[random.IntN(len(all))]
		if p.kind == "" {
			p.number = c.sizes[w.name].someWrite(p.disturbance, random)
		}
		chosenPoints = append(chosenPoints, p)
	}
	c.disturbed(chosen, chosenPoints)
	c.end()
}

// results are the runs of all clusters.
type results struct {
	mutex sync.Mutex
	runs  []report.Run
}

func (r *results) add(run report.Run) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.runs = append(r.runs, run)
}

// write writes the report into the folder _output of the project, unless nothing was run.
func (r *results) write(t *testing.T) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.runs) == 0 {
		return
	}
	var table, page bytes.Buffer
	report.Table(&table, r.runs)
	if err := report.HTML(&page, "Faults", r.runs); err != nil {
		t.Error(err)
	}
	dir := filepath.Join("..", "..", "_output")
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "faults.md"), table.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "faults.html"), page.Bytes(), 0o600))
	if err != nil {
		t.Error(err)
	}
}
