// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/faults"
)

func TestRollout_FailedWrites(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	var happened []func() int
	for i, fault := range []faults.Fault{
		{Status: http.StatusServiceUnavailable, RetryAfter: time.Second},
		{Status: http.StatusConflict},
		{Status: http.StatusInternalServerError},
		{Lose: true},
		{Reset: true},
	} {
		fault.Verbs, fault.Every, fault.Times = faults.Writes, []int{11, 7, 13, 5, 8}[i], 3
		happened = append(happened, h.Proxy.Fail(fault))
	}
	h.start("4.22.0")
	h.settled("4.22.0-1")
	for i, times := range happened {
		if times() == 0 {
			t.Errorf("fault %d was not injected", i)
		}
	}
	h.installedOnce(append(providerObjects("cluster-api", "apicluster"), providerObjects("cluster-api-provider-aws", "awscluster")...))
	h.owned("4.22.0-1")
	h.quiet()
}

// providerObjects returns the names of the objects of a synthetic provider.
func providerObjects(name, kind string) []string {
	return []string{
		"ClusterRole " + name + "-manager", "ClusterRoleBinding " + name + "-manager", "ConfigMap " + name + "-config",
		"CustomResourceDefinition " + kind + "s.infrastructure.cluster.x-k8s.io", "Deployment " + name + "-controller-manager",
		"Role " + name + "-leader-election", "RoleBinding " + name + "-leader-election", "Service " + name + "-metrics", "ServiceAccount " + name + "-manager",
	}
}

// installedOnce fails the test unless these objects are installed, each was written once, and one version was created.
func (h *harness) installedOnce(want []string) {
	h.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, h.names()); diff != "" {
		h.Errorf("installed (-want +got):\n%s", diff)
	}
	for name, object := range h.installed() {
		if object.GetGeneration() > 1 {
			h.Errorf("%s was changed after its creation: generation %d", name, object.GetGeneration())
		}
	}
	versions := &corev1.ConfigMapList{}
	h.must(h.List(h.Context(), versions, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel}))
	if len(versions.Items) != 1 {
		h.Errorf("%d revision ConfigMaps, want one", len(versions.Items))
	}
}

// quiet fails the test unless writes stop.
func (h *harness) quiet() {
	h.Helper()
	before := h.Proxy.Writes()
	h.eventually("there are no writes for 2 s", func() error {
		time.Sleep(2 * time.Second)
		now := h.Proxy.Writes()
		if now == before {
			return nil
		}
		before = now
		return errors.New("there are writes")
	})
}

func TestRollout_FailedReadsAndCutWatches(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	unread := h.Proxy.Fail(faults.Fault{Verbs: []string{faults.Get, faults.Watch}, Every: 7, Times: 20, Status: http.StatusServiceUnavailable})
	reset := h.Proxy.Fail(faults.Fault{Verbs: []string{faults.Get}, Every: 5, Times: 20, Reset: true})
	busy := h.Proxy.Fail(faults.Fault{Every: 10, Times: 5, Status: http.StatusTooManyRequests, RetryAfter: time.Second})
	cut := h.Proxy.Fail(faults.Fault{Verbs: []string{faults.Watch}, Cut: 700 * time.Millisecond})
	h.start("4.22.0")
	h.settled("4.22.0-1")
	if unread() == 0 || reset() == 0 || busy() == 0 || cut() == 0 {
		t.Errorf("some faults were not injected: %d unread, %d reset, %d busy, %d cut", unread(), reset(), busy(), cut())
	}
	settings := &corev1.ConfigMap{}
	settings.Namespace, settings.Name = namespace, "cluster-api-config"
	h.must(h.Delete(t.Context(), settings))
	h.eventually("the deleted objects are recreated", func() error {
		return h.Get(t.Context(), client.ObjectKeyFromObject(settings), settings)
	})
	h.owned("4.22.0-1")
}

func TestRollout_APIServerDown(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.startUntilDown("4.22.0", "--leader-elect")
	time.Sleep(15 * time.Second)
	if !p.Runs() {
		t.Fatalf("capi-installer has ended: %v", p.Err)
	}
	if cluster, err := h.clusterAPI(); err != nil || cluster.Status.CurrentVersion != "" {
		t.Fatalf("the rollout was over when the API server went down: %v\n%s", err, h.conditions())
	}
	h.must(h.Proxy.Up())
	h.settled("4.22.0-1")
	h.installedOnce(append(providerObjects("cluster-api", "apicluster"), providerObjects("cluster-api-provider-aws", "awscluster")...))
}

func TestProgram_SIGTERMWhileAPIServerIsDown(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.startUntilDown("4.22.0", "--leader-elect")
	time.Sleep(15 * time.Second) // after that, watches are retried with long pauses only
	p.terminate()
}

// startUntilDown starts a program, and returns when a phase is complete and the API server is down.
func (h *harness) startUntilDown(release string, arguments ...string) *process {
	h.Helper()
	down := make(chan error, 1)
	var once sync.Once
	p := h.startWatched(release, func(_ *process, l line) {
		if l.Message == "Phase complete" {
			once.Do(func() { down <- h.Proxy.Down() })
		}
	}, arguments...)
	select {
	case err := <-down:
		h.must(err)
	case <-time.After(patience):
		h.Fatalf("no phase has completed:\n%s", h.conditions())
	}
	return p
}

func TestProgram_WaitsForTheAPIServerAtStart(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.must(h.Proxy.Down())
	h.startWaiting("4.22.0").terminate()
	p := h.startWaiting("4.22.0")
	if full {
		time.Sleep(150 * time.Second)
	}
	if !p.Runs() {
		t.Fatalf("capi-installer has ended: %v", p.Err)
	}
	h.must(h.Proxy.Up())
	h.settled("4.22.0-1")
}

// startWaiting starts a program, and returns when it waits for the API server.
func (h *harness) startWaiting(release string) *process {
	h.Helper()
	p := h.start(release)
	h.eventually("the program waits for the API server", func() error {
		if !p.logged("Waiting for the API server") {
			return errors.New("not in the log")
		}
		return nil
	})
	return p
}

// boundaries are the log lines between the steps of an upgrade.
var boundaries = []line{
	{Message: "Stored version"},
	{Message: "New desired version"},
	{Message: "Phase complete", Phase: "cluster-api-crds"},
	{Message: "Phase complete", Phase: "cluster-api"},
	{Message: "Phase complete", Phase: "cluster-api-provider-aws-crds"},
	{Message: "Phase complete", Phase: "cluster-api-provider-aws"},
	{Message: "Retiring version"},
	{Message: "Removed the finalizer of a revision ConfigMap"},
}

func TestUpgrade_KilledAtPhaseBoundary(t *testing.T) {
	h := newHarness(t)
	u := h.upgrades()
	for _, boundary := range boundaries {
		ofTheOldVersion := boundary.Message == "Retiring version" || boundary.Message == "Removed the finalizer of a revision ConfigMap"
		u.killAt(func(l line, version string) bool {
			return l.Message == boundary.Message && l.Phase == boundary.Phase && (l.Version != version) == ofTheOldVersion
		})
		if !u.upgrade() {
			t.Errorf("the program was not killed at %s %s", boundary.Message, boundary.Phase)
		}
	}
}

func TestUpgrade_KilledAtWrite(t *testing.T) {
	h := newHarness(t)
	u := h.upgrades()
	first, step := 8, 24
	if full {
		first, step = 1, 1
	}
	for n := first; ; n += step {
		h.Proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: n, Times: 1, Do: u.kill})
		killed := u.upgrade()
		h.Proxy.Heal()
		if !killed && n <= 30 {
			t.Errorf("an upgrade has only %d writes", n-1)
		}
		if !killed {
			break
		}
	}
}

// upgrades upgrades one cluster repeatedly between two releases.
type upgrades struct {
	*harness
	releases [2]func()
	want     [2]map[string]any // the installed objects after an undisturbed upgrade
	running  *process

	mutex    sync.Mutex
	revision int // the number of the newest version
	killer   func(l line, version string) bool
	// armed is set while a kill is allowed; killed is set after one.
	armed, killed bool
}

// upgrades installs both releases one after the other, undisturbed.
func (h *harness) upgrades() *upgrades {
	h.Helper()
	u := &upgrades{harness: h, revision: 1}
	u.releases[1] = func() { h.release(core("v1.0.0", configMap("first")), aws("v1.0.0", configMap("aws-first"))) }
	u.releases[0] = func() { h.release(core("v2.0.0", configMap("second")), aws("v2.0.0", configMap("aws-second"))) }
	u.releases[1]()
	u.start()
	h.settled(u.version())
	u.want[1] = h.content()
	u.revision++
	u.releases[0]()
	h.settled(u.version())
	u.want[0] = h.content()
	if len(u.want[0]) != 20 || cmp.Diff(u.want[0], u.want[1]) == "" {
		h.Fatalf("both releases are equal or incomplete: %v", h.names())
	}
	return u
}

func (u *upgrades) version() string { return fmt.Sprintf("4.22.0-%d", u.revision) }

// killAt makes the program be killed at the first chosen line of its log.
func (u *upgrades) killAt(chosen func(l line, version string) bool) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.killer = chosen
}

// kill kills the running program during an upgrade. A converged program must not be killed: with the original boxcutter
// it still makes dry runs, and they count as writes.
func (u *upgrades) kill() {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.killProcess(u.running)
}

func (u *upgrades) killProcess(p *process) {
	if u.armed {
		u.armed, u.killed = false, true
		_ = p.Signal(os.Kill)
	}
}

// disarm ends the time during which a kill is allowed, and reports whether the program was killed.
func (u *upgrades) disarm() bool {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.armed, u.killer = false, nil
	return u.killed
}

func (u *upgrades) start() {
	u.Helper()
	u.running = u.startWatched("4.22.0", func(p *process, l line) {
		u.mutex.Lock()
		defer u.mutex.Unlock()
		if u.killer != nil && u.killer(l, u.version()) {
			u.killProcess(p)
		}
	})
}

// upgrade changes to the other release, restarts the program if it is killed, and checks that the result equals an
// undisturbed upgrade's. It reports whether the program was killed.
func (u *upgrades) upgrade() (killed bool) {
	u.Helper()
	u.mutex.Lock()
	u.revision++
	u.armed, u.killed = true, false
	u.mutex.Unlock()
	u.releases[u.revision%2]()
	u.eventually("the program is killed or done", func() error {
		if !u.running.Runs() {
			return nil
		}
		return u.unsettled(u.version())
	})
	if killed = u.disarm(); killed {
		<-u.running.Exited
		u.start()
		u.settled(u.version())
	}
	if diff := cmp.Diff(u.want[u.revision%2], u.content()); diff != "" {
		u.Errorf("installed (-after an undisturbed upgrade +now):\n%s", diff)
	}
	u.owned(u.version())
	return killed
}
