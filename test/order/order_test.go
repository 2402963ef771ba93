// SPDX-License-Identifier: Apache-2.0

package order

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
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
	installed []state // of each release: at rest, with an instance
}

// newBench installs each release.
func newBench(t *testing.T) *bench {
	b := &bench{t, start(t), newReleases(), filepath.Join(t.TempDir(), "images.json"), nil}
	for release := range b.objects {
		w := b.check(schedule{-1, release, []move{{1000, "instance", 0}}}, "installation")
		end, err := b.state()
		if b.Failed() || err != nil {
			b.Fatal(err)
		}
		b.installed, b.objects[release] = append(b.installed, end), w.installed()
	}
	return b
}

// run plays a schedule in a new world, and returns the world and the violated invariant.
func (b *bench) run(s schedule) (w *world, err error) {
	begin, now := b.empty, time.Now().Add(-30*time.Minute) // the end of an installation is in the past
	if s.From >= 0 {
		begin, now = b.installed[s.From], time.Now()
	}
	if err := b.restore(begin); err != nil {
		b.Fatal(err)
	}
	w = &world{server: b.server, releases: b.releases, images: b.images, slow: map[string]int{"kubelet": math.MaxInt}, check: &checker{did: sets.Set[string]{}, older: sets.Set[string]{}}}
	synctest.Test(b.T, func(*testing.T) {
		time.Sleep(time.Until(now))
		if err = errors.Join(w.request(s.To), w.start(time.Time{}, 0)); err == nil {
			err = errors.Join(w.play(s), w.process.end())
		}
	})
	return w, err
}

// play plays a schedule to the check at its end.
func (w *world) play(s schedule) error {
	if s.From >= 0 {
		w.backup = w.releases.objects[s.From]
	}
	err := w.run(s.Moves)
	if err == nil && w.at(clusterPath) != nil {
		err = w.check.rest(w)
	}
	if err == nil {
		err = errors.Join(w.calm(), w.request(s.To), w.run(nil))
	}
	if err == nil {
		err = w.check.atRest(w, s.To)
	}
	return err
}

// check runs a schedule. If it is the first that fails, moves go while it still fails, and its steps are printed.
func (b *bench) check(s schedule, from string) *world {
	w, err := b.run(s)
	if err == nil {
		return w
	}
	if !b.Failed() {
		for i := 0; i < len(s.Moves); i++ {
			smaller := s
			smaller.Moves = slices.Delete(slices.Clone(s.Moves), i, i+1)
			if again, failed := b.run(smaller); failed != nil {
				w, err, s, i = again, failed, smaller, -1
			}
		}
		fmt.Println(strings.Join(w.trace, "\n"))
		if *verbose {
			fmt.Println(strings.Join(w.logs, "\n"))
		}
	}
	text, _ := json.Marshal(s)
	b.Errorf("%s: %v\nreplay: go test ./test/order -run TestReplays -replay '%s'", from, err, text)
	return w
}

// Schedules that found faults.
func TestReplays(t *testing.T) {
	b := newBench(t)
	schedules := []schedule{
		{1, 2, []move{{8, "uninstall", 0}}},                                                       // a retained CRD with a stored version that the release lacks was never migrated
		{0, 2, []move{{11, "restore-by-apply", 5700}}},                                            // a restore between the change of field managers and the apply kept a field
		{1, 0, []move{{29, "crash-late", 4684}}},                                                  // the permission that a former leader created late stayed
		{2, 0, []move{{0, "ignore", 4685}}},                                                       // a field that a drift policy had left during an upgrade was reported as an external change
		{0, 1, []move{{61, "override", 2715}, {70, "edit", 809}}},                                 // a version was complete while pods of an unchanged component started
		{0, 1, []move{{34, "theirs-secret", 4812}, {51, "unmanage", 1543}}},                       // the replaced version adopted a CRD whose instances were stored in a version that it lacks
		{2, 1, []move{{62, "release", 4268}, {97, "delay", 4934}}},                                // an object was reported as rejected, because the dry run came before a change of field managers that had to be repeated
		{3, 1, []move{{87, "adopt", 2096}, {88, "theirs-configmap", 792}}},                        // the annotation of an adoption was removed from another object with the name
		{1, 3, []move{{0, "quick", 0}, {17, "delete-revision", 462}, {34, "crash-before", 1554}}}, // a crash in the recreation of a deleted ConfigMap of a replaced version left its objects
		{3, 1, []move{{29, "release", 6120}, {38, "delay", 4220}}},                                // webhooks of an older version that the cache did not have yet switched before the pods were ready
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
func (b *bench) cpu() (used float64) {
	for _, process := range append([]int{os.Getpid()}, b.programs...) {
		if p, err := procfs.NewProc(process); err == nil {
			stat, _ := p.Stat()
			used += stat.CPUTime()
		}
	}
	return used
}

func TestOrder(t *testing.T) {
	b := newBench(t)
	began, before, n, steps := time.Now(), b.cpu(), 0, 0
	for ; time.Since(began) < *duration && (*count == 0 || n < *count); n++ {
		w := b.check(generate(*seed+uint64(n), len(b.installed)), fmt.Sprint("seed ", *seed+uint64(n)))
		steps += len(w.trace)
	}
	used := b.cpu() - before
	t.Logf("%d schedules of %d steps in %s, CPU %.1f s: %.0f schedules per CPU hour", n, steps/max(n, 1), time.Since(began).Round(time.Second), used, float64(n)/used*3600)
}
