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
	replay   = flag.String("replay", "", "schedule to replay, instead of seeds")
	keep     = flag.String("keep", "", "file to write: a cluster runs until it is removed")
	use      = flag.String("use", "", "file of a kept cluster; empty starts a cluster")
	survey   = flag.Int("survey", 0, "number of failing schedules until the end; only their violations are printed")
	verbose  = flag.Bool("steps", false, "print the steps and the log of a replayed schedule")
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
	bed
	server    *server
	releases  *releases
	images    string
	installed map[int]state // with a release at rest
}

func newBench(t *testing.T) *bench {
	var of bed
	if *use == "" {
		of = prepare(t)
	} else if content, err := os.ReadFile(*use); err != nil || json.Unmarshal(content, &of) != nil {
		t.Fatalf("reading %s: %v", *use, err)
	}
	s, err := of.open()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, of, s, newReleases(), filepath.Join(t.TempDir(), "images.json"), map[int]state{}}
}

// maximum is the number of steps without rest after the last move.
const maximum = 2500

// run runs a schedule, and returns its world and the violated invariant.
func (b *bench) run(s schedule) (w *world, err error) {
	begin := b.Empty
	if !s.Install {
		if b.installed[s.From] == nil {
			if w, err = b.from(b.Empty, -time.Hour, func(w *world) error { return w.install(s.From) }); err != nil {
				return w, fmt.Errorf("installing release %d: %w", s.From, err)
			}
			if b.installed[s.From], err = b.server.save(); err != nil {
				return w, err
			}
		}
		begin = b.installed[s.From]
	}
	return b.from(begin, 0, func(w *world) error { return w.play(s) })
}

// from plays in a new world, which begins with a state. shift is the difference between its clock and that of the API server.
func (b *bench) from(begin state, shift time.Duration, play func(*world) error) (w *world, err error) {
	if err := b.server.restore(begin); err != nil {
		b.Fatal(err)
	}
	w = &world{server: b.server, releases: b.releases, images: b.images, slow: map[string]int{}, check: newChecker()}
	now := time.Now().Add(shift)
	synctest.Test(b.T, func(*testing.T) {
		time.Sleep(time.Until(now))
		err = play(w)
		if w.process != nil {
			err = errors.Join(err, w.process.kill())
		}
	})
	return w, err
}

// install installs a release, and creates an instance.
func (w *world) install(release int) error {
	err := errors.Join(w.request(release), w.start(time.Time{}, 0))
	if err == nil {
		err = w.run(nil, maximum)
	}
	if err == nil {
		err = w.check.atRest(w, release)
	}
	for err == nil && w.server.get(crdCollection, "", machinesCRD) != nil && !w.check.machines["m"] { // the API server asks the webhook
		err = w.admin("PATCH", machines+"/m?fieldManager=kubectl", `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Machine","metadata":{"name":"m","labels":{"of":"a-user"}}}`)
	}
	return err
}

// play plays a schedule to the check at its end.
func (w *world) play(s schedule) error {
	moves := s.Moves
	if before, _ := slices.BinarySearchFunc(moves, 0, func(m move, at int) int { return m.At - at }); !s.Install {
		w.check.remember(w)
		if before > 0 { // before the upgrade
			err := errors.Join(w.request(s.From), w.start(time.Time{}, 0))
			if err == nil {
				err = w.run(nil, maximum)
			}
			if err == nil {
				err = w.run(moves[:before], maximum)
			}
			if err != nil {
				return err
			}
			moves = moves[before:]
			w.trace = append(w.trace, "  upgrade")
		}
	}
	if err := w.request(s.To); err != nil {
		return err
	}
	if w.process == nil {
		if err := w.start(time.Time{}, 0); err != nil {
			return err
		}
	}
	if err := w.run(moves, maximum); err != nil {
		return err
	}
	if err := w.check.rest(w); err != nil && w.server.get(collectionOf(clusterPath), "", "cluster") != nil {
		return err
	}
	w.trace = append(w.trace, "  calm")
	if err := w.calm(s.To); err != nil {
		return err
	}
	if err := w.run(nil, maximum); err != nil {
		return err
	}
	return w.check.atRest(w, s.To)
}

// cpu returns the seconds of CPU time of this process, the API server and etcd.
func (b *bench) cpu() (used [3]float64) {
	for i, process := range append([]int{os.Getpid()}, b.Programs...) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
		fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		for _, ticks := range fields[11:13] {
			n, _ := strconv.ParseFloat(ticks, 64)
			used[i] += n / 100
		}
	}
	return used
}

// shrink removes moves while the schedule still fails.
func (b *bench) shrink(s schedule) schedule {
	for again := true; again; {
		again = false
		for i := range s.Moves {
			smaller := s
			smaller.Moves = slices.Delete(slices.Clone(s.Moves), i, i+1)
			if _, err := b.run(smaller); err != nil {
				s, again = smaller, true
				break
			}
		}
	}
	return s
}

// report reports a failing schedule with its steps.
func (b *bench) report(s schedule, from string) {
	s = b.shrink(s)
	w, err := b.run(s)
	b.Errorf("%s: %v\nreplay: go test ./test/order -replay %q\nsteps:\n%s", from, err, s, strings.Join(w.trace[max(0, len(w.trace)-400):], "\n"))
}

// TestKeep keeps a cluster for runs of other binaries, such as those with a seeded bug.
func TestKeep(t *testing.T) {
	if *keep == "" {
		t.Skip("-keep names the file for -use")
	}
	content, err := json.Marshal(prepare(t))
	if err == nil {
		err = os.WriteFile(*keep, content, 0o600)
	}
	for err == nil {
		time.Sleep(time.Second)
		_, err = os.Stat(*keep)
	}
	t.Log(err)
}

// Schedules that found faults.
func TestReplays(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{
		"from 1 to 2 install false; 8 uninstall 0",                           // a retained CRD with a stored version that the release lacks was never migrated
		"from 0 to 2 install false; 11 restore-by-apply 5700",                // a restore between the change of field managers and the apply kept a field
		"from 1 to 0 install false; 29 crash-late 4684",                      // the permission that a former leader created late stayed
		"from 2 to 0 install false; -1 ignore 4685",                          // a field that a drift policy had left during an upgrade was reported as an external change
		"from 0 to 1 install false; 61 override 2715; 70 edit 809",           // a version was complete while pods of an unchanged component started
		"from 0 to 1 install false; 34 theirs-secret 4812; 51 unmanage 1543", // the replaced version adopted a CRD whose instances were stored in a version that it lacks
		"from 0 to 0 install true; 7 override 5943; 7 crash-after 1290",      // the finalizer was written over a newer status, and the report after it could take that back
		"from 2 to 1 install false; 62 meddle 4268; 97 delay 4934",           // an object was reported as rejected, because the dry run came before a change of field managers that had to be repeated
		"from 3 to 1 install false; 87 adopt 2096; 88 theirs-configmap 792",  // the annotation of an adoption was removed from another object with the name
		"from 3 to 2 install false; 43 uninstall 3095",                       // an uninstall removed objects of a version while the managers of the next version ran
	} {
		s, err := parseSchedule(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.run(s); err != nil {
			b.report(s, "replay")
		}
	}
}

func TestOrder(t *testing.T) {
	b := newBench(t)
	if *replay != "" {
		s, err := parseSchedule(*replay)
		if err != nil {
			t.Fatal(err)
		}
		w, err := b.run(s)
		if *verbose {
			for i, line := range w.trace {
				fmt.Println(i, line)
			}
			fmt.Println(strings.Join(w.logs, "\n"))
		}
		if err != nil {
			b.report(s, "replay")
		}
		return
	}
	began, busy, n, steps, failed := time.Now(), b.cpu(), 0, 0, 0
	for n = 0; time.Since(began) < *duration && (*count == 0 || n < *count); n++ {
		s := generate(*seed+uint64(n), len(b.releases.images))
		w, err := b.run(s)
		if steps += len(w.trace); err != nil && *survey > 0 {
			if failed++; failed == *survey {
				*count = n + 1
			}
			first, _, _ := strings.Cut(err.Error(), "\n")
			t.Fail()
			fmt.Printf("seed %d: %.400s\n\t%s\n", *seed+uint64(n), first, s)
			continue
		}
		if err != nil {
			b.report(s, fmt.Sprintf("seed %d", *seed+uint64(n)))
			return
		}
	}
	var used [3]float64
	for i, now := range b.cpu() {
		used[i] = now - busy[i]
	}
	t.Logf("%d schedules of %d steps in %s, %d of them fail, CPU %.2f s (tests, API server, etcd %.1f): %.0f schedules per CPU hour", n, steps/max(n, 1), time.Since(began).Round(time.Second), failed, used[0]+used[1]+used[2], used, float64(n)/(used[0]+used[1]+used[2])*3600)
}
