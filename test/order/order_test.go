// SPDX-License-Identifier: Apache-2.0

package order

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capi-installer/capi-installer/test/controlplane"
)

var (
	seed     = flag.Uint64("seed", 2000, "seed of the first schedule")
	duration = flag.Duration("duration", 2*time.Minute, "time for schedules")
	count    = flag.Int("schedules", 40, "maximum number of schedules; 0 is as many as the time allows")
	replay   = flag.String("replay", "", "schedule that TestReplays replays, in JSON")
	verbose  = flag.Bool("log", false, "print the log of the program after the steps of a failing schedule")
)

func TestMain(m *testing.M) {
	// An informer that lists with a watch reads the end of the list from the watch: the scheduler needs both apart.
	_ = os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	utilruntime.ErrorHandlers = nil // they sleep until the clock of an earlier bubble is reached
	ctrl.SetLogger(logr.Discard())
	debug.SetGCPercent(400)
	_ = os.Setenv("GOGC", "400") // of the API server and etcd
	controlplane.Main(m)
}

// bench runs schedules in a cluster.
type bench struct {
	*testing.T
	*server
	*releases
	images    string
	installed map[int]state // with a release at rest
}

func newBench(t *testing.T) *bench {
	return &bench{t, start(t), newReleases(), filepath.Join(t.TempDir(), "images.json"), map[int]state{}}
}

// run runs a schedule, and returns its world and the violated invariant.
func (b *bench) run(s schedule) (w *world, err error) {
	begin := b.empty
	if !s.Install {
		if b.installed[s.From] == nil {
			if w, err = b.from(b.empty, -30*time.Minute, func(w *world) error { return w.install(s.From) }); err != nil {
				return w, fmt.Errorf("installing release %d: %w", s.From, err)
			}
			if b.installed[s.From], err = b.state(registry); err != nil {
				return w, err
			}
		}
		begin = b.installed[s.From]
	}
	return b.from(begin, 0, func(w *world) error { return w.play(s) })
}

// from plays in a new world, which begins with a state. shift is the difference between its clock and that of the API server.
func (b *bench) from(begin state, shift time.Duration, play func(*world) error) (w *world, err error) {
	if err := b.restore(begin); err != nil {
		b.Fatal(err)
	}
	w = &world{server: b.server, releases: b.releases, images: b.images, slow: map[string]int{}, check: newChecker()}
	now := time.Now().Add(shift)
	synctest.Test(b.T, func(*testing.T) {
		time.Sleep(time.Until(now))
		err = play(w)
		if w.process != nil {
			err = errors.Join(err, w.process.end())
		}
	})
	return w, err
}

// install installs a release, and creates an instance.
func (w *world) install(release int) error {
	err := w.reach(release, nil)
	if err == nil {
		err = w.check.atRest(w, release)
	}
	for err == nil && w.at(crdPath) != nil && !w.check.machines["m"] { // the API server asks the webhook
		err = w.admin("PATCH", machines+"/m?fieldManager=kubectl", `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Machine","metadata":{"name":"m","labels":{"of":"a-user"}}}`)
	}
	return err
}

// reach requests a release, and plays moves until the world is at rest.
func (w *world) reach(release int, moves []move) error {
	if err := w.request(release); err != nil {
		return err
	}
	if w.process == nil {
		if err := w.start(time.Time{}, 0); err != nil {
			return err
		}
	}
	w.trace = append(w.trace, fmt.Sprint("  release ", release))
	return w.run(moves)
}

// play plays a schedule to the check at its end.
func (w *world) play(s schedule) error {
	before, _ := slices.BinarySearchFunc(s.Moves, 0, func(m move, at int) int { return m.At - at })
	if !s.Install {
		w.check.remember(w)
	}
	if before > 0 {
		if err := w.reach(s.From, nil); err != nil {
			return err
		}
		if err := w.reach(s.From, s.Moves[:before]); err != nil {
			return err
		}
	}
	if err := w.reach(s.To, s.Moves[before:]); err != nil {
		return err
	}
	if err := w.check.rest(w); err != nil && w.at(clusterPath) != nil {
		return err
	}
	if err := w.calm(); err != nil {
		return err
	}
	if err := w.reach(s.To, nil); err != nil {
		return err
	}
	return w.check.atRest(w, s.To)
}

// shrink removes moves while the schedule still fails.
func (b *bench) shrink(s schedule) schedule {
	for i := 0; i < len(s.Moves); i++ {
		smaller := s
		smaller.Moves = slices.Delete(slices.Clone(s.Moves), i, i+1)
		if _, err := b.run(smaller); err != nil {
			s, i = smaller, -1
		}
	}
	return s
}

// check runs a schedule. If it is the first that fails, it is shrunk, and reported with its steps.
func (b *bench) check(s schedule, from string) (steps int) {
	w, err := b.run(s)
	steps = len(w.trace)
	if err != nil && !b.Failed() {
		smaller := b.shrink(s)
		if again, failed := b.run(smaller); failed != nil {
			w, err, s = again, failed, smaller
		}
		fmt.Println(strings.Join(w.trace, "\n"))
		if *verbose {
			fmt.Println(strings.Join(w.logs, "\n"))
		}
	}
	if err != nil {
		text, _ := json.Marshal(s)
		b.Errorf("%s: %v\nreplay: go test ./test/order -run TestReplays -replay '%s'", from, err, text)
	}
	return steps
}

// Schedules that found faults.
func TestReplays(t *testing.T) {
	b := newBench(t)
	schedules := []schedule{
		{1, 2, false, []move{{8, "uninstall", 0}}},                                                       // a retained CRD with a stored version that the release lacks was never migrated
		{0, 2, false, []move{{11, "restore-by-apply", 5700}}},                                            // a restore between the change of field managers and the apply kept a field
		{1, 0, false, []move{{29, "crash-late", 4684}}},                                                  // the permission that a former leader created late stayed
		{2, 0, false, []move{{-1, "ignore", 4685}}},                                                      // a field that a drift policy had left during an upgrade was reported as an external change
		{0, 1, false, []move{{61, "override", 2715}, {70, "edit", 809}}},                                 // a version was complete while pods of an unchanged component started
		{0, 1, false, []move{{34, "theirs-secret", 4812}, {51, "unmanage", 1543}}},                       // the replaced version adopted a CRD whose instances were stored in a version that it lacks
		{0, 0, true, []move{{7, "override", 5943}, {7, "crash-after", 1290}}},                            // the finalizer was written over a newer status, and the report after it could take that back
		{2, 1, false, []move{{62, "meddle", 4268}, {97, "delay", 4934}}},                                 // an object was reported as rejected, because the dry run came before a change of field managers that had to be repeated
		{3, 1, false, []move{{87, "adopt", 2096}, {88, "theirs-configmap", 792}}},                        // the annotation of an adoption was removed from another object with the name
		{1, 3, false, []move{{0, "quick", 0}, {17, "delete-revision", 462}, {34, "crash-before", 1554}}}, // a crash in the recreation of a deleted ConfigMap of a replaced version left its objects
		{3, 1, false, []move{{29, "lag", 4193}, {29, "release", 6120}}},                                  // webhooks of an older version that the cache did not have yet switched before the pods were ready
		{1, 2, false, []move{{13, "release", 4915}, {62, "release", 4424}}},                              // the removal of a version stopped after the Service of the conversion of a retained CRD was deleted
		{3, 2, false, []move{{43, "uninstall", 3095}}},                                                   // an uninstall removed objects of a version while the managers of the next version ran
	}
	if *replay != "" {
		schedules = []schedule{{}}
		if err := json.Unmarshal([]byte(*replay), &schedules[0]); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range schedules {
		b.check(s, "replay")
	}
}

// cpu returns the seconds of CPU time of this process, the API server and etcd.
func (b *bench) cpu() (used [3]float64) {
	for i, process := range append([]int{os.Getpid()}, b.programs...) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
		fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		for _, ticks := range fields[11:13] {
			n, _ := strconv.ParseFloat(ticks, 64)
			used[i] += n / 100
		}
	}
	return used
}

func TestOrder(t *testing.T) {
	b := newBench(t)
	began, before, n, steps := time.Now(), b.cpu(), 0, 0
	for ; time.Since(began) < *duration && (*count == 0 || n < *count); n++ {
		steps += b.check(generate(*seed+uint64(n), len(b.releases.images)), fmt.Sprint("seed ", *seed+uint64(n)))
	}
	after, sum := b.cpu(), 0.0
	for i := range after {
		after[i] -= before[i]
		sum += after[i]
	}
	t.Logf("%d schedules of %d steps in %s, CPU %.1f s (tests, API server, etcd): %.0f schedules per CPU hour", n, steps/max(n, 1), time.Since(began).Round(time.Second), after, float64(n)/sum*3600)
}
