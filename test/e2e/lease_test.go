// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// election are the arguments of processes that compete for a lease that expires soon.
var election = []string{"--leader-elect", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s"}

// ample are the arguments of processes that compete for a lease in which a downgrade removes the objects of a version.
var ample = []string{"--leader-elect", "--leader-elect-lease-duration=20s", "--leader-elect-renew-deadline=15s", "--leader-elect-retry-period=500ms"}

// hold holds a write back until the returned function is called, and pauses the leader meanwhile.
func (h *harness) hold(write faults.Fault, leader *process) (held func() int, let func()) {
	release := make(chan struct{})
	let = sync.OnceFunc(func() { close(release) })
	h.Cleanup(let)
	write.Do = func() { leader.signal(syscall.SIGSTOP); <-release }
	return h.Proxy.Fail(write), let
}

// nthWrite is the nth write.
func nthWrite(nth int) faults.Fault {
	return faults.Fault{Verbs: faults.Writes, SkipDryRuns: true, Every: nth, Times: 1}
}

// continued lets a paused process continue, and waits until it has ended, because it has lost its lease.
func (h *harness) continued(p *process) {
	h.Helper()
	p.signal(syscall.SIGCONT)
	h.eventually("the paused process has ended", func() error {
		if p.Runs() {
			return errors.New("it runs")
		}
		return nil
	})
}

// succeeded returns an error until another process than the former leader leads.
func (h *harness) succeeded(former string) error {
	if led := h.leader(); led == "" || led == former {
		return fmt.Errorf("%q leads", led)
	}
	return nil
}

// atRest returns an error until the desired version is installed and nothing else.
func (h *harness) atRest() error {
	cluster, err := h.clusterAPI()
	if err != nil {
		return err
	}
	return fixture.Unsettled(cluster.Status, cluster.Status.DesiredVersion)
}

// signal sends a signal to a process that runs.
func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(signal); err != nil {
		p.t.Errorf("sending %s to capi-installer: %v", signal, err)
	}
}

// TestLease_Pauses pauses the leader again and again, at another write of an upgrade or a downgrade each time, until another process leads and
// has removed the objects of the other release: no object of a removed version stays. PAUSES is the number of pauses; make pauses makes 200.
func TestLease_Pauses(t *testing.T) {
	pauses := 3
	if n, err := strconv.Atoi(os.Getenv("PAUSES")); err == nil {
		pauses = n
	}
	h := newHarness(t)
	p := paused{h: h, releases: map[string]map[string]string{
		"only-a": h.imagesOf(core("v1.0.0", configMap("only-a")), aws("v1.0.0")),
		"only-b": h.imagesOf(core("v2.0.0", configMap("only-b")), aws("v2.0.0")),
	}}
	h.writeImages(p.releases["only-a"])
	p.leader = h.start("4.22.0", ample...)
	h.within(2*patience, "the first release is installed", func() error { return p.installed("only-a", "only-b") })
	late := 0
	for n := range pauses {
		from, to := "only-a", "only-b"
		if n%2 == 1 {
			from, to = to, from
		}
		if p.pause(fmt.Sprintf("pause %d", n+1), 1+n/2%20, from, to) {
			late++
		}
	}
	p.leader.end() // it could lose its short lease during the uninstallation: another process without a lease uninstalls
	t.Logf("%d pauses, %d of them during a write, 0 orphans", pauses, late)
	if late*2 < pauses {
		t.Errorf("%d of %d pauses happened during a write", late, pauses)
	}
}

// paused is an installation whose leader is paused repeatedly.
type paused struct {
	h *harness
	// releases are the images of the releases, by the ConfigMap that only this release has.
	releases map[string]map[string]string
	leader   *process
}

// installed returns an error until a release is installed, and nothing of the other one exists.
func (p *paused) installed(own, other string) error {
	return errors.Join(p.has(own, other), p.h.atRest())
}

// has returns an error until the objects of a release exist, and no object of the other one.
func (p *paused) has(own, other string) error {
	names := p.h.names()
	if !slices.Contains(names, "ConfigMap "+own) || slices.Contains(names, "ConfigMap "+other) {
		return fmt.Errorf("installed: %v", names)
	}
	return nil
}

// pause pauses the leader during the nth write of a change between releases. Another process goes back to the former release, then the write
// arrives and the leader continues. At the end the other release is installed. It reports whether there was such a write.
func (p *paused) pause(name string, nth int, from, to string) bool {
	h := p.h
	h.Helper()
	was := h.leader()
	held, let := h.hold(nthWrite(nth), p.leader)
	h.writeImages(p.releases[to])
	h.eventually(name+": the leader is paused, or the change is complete", func() error {
		if held() > 0 {
			return nil
		}
		if !p.leader.Runs() { // it has lost its lease before the write: no process is paused
			h.Proxy.Heal()
			p.leader = p.start()
		}
		return p.installed(to, from)
	})
	if held() == 0 {
		h.Proxy.Heal()
		return false
	}
	h.writeImages(p.releases[from])
	next := p.start()
	h.eventually(name+": the other process leads", func() error {
		next = p.running(next)
		return h.succeeded(was)
	})
	h.eventually(name+": the objects of the other release are removed", func() error {
		next = p.running(next)
		return p.has(from, to)
	})
	let()
	h.continued(p.leader)
	time.Sleep(500 * time.Millisecond) // the write is visible
	p.leader = next
	h.eventually(name+": nothing of the late write is left", func() error {
		p.leader = p.running(p.leader)
		return p.installed(from, to)
	})
	h.writeImages(p.releases[to])
	h.eventually(name+": the other release is installed", func() error {
		p.leader = p.running(p.leader)
		return p.installed(to, from)
	})
	return true
}

// start starts a process that waits for the lease.
func (p *paused) start() *process {
	return p.h.start("4.22.0", append(slices.Clone(ample), "--cache-dir="+p.h.TempDir())...)
}

// running returns the process, or another one if it has ended: on a slow machine it can lose its short lease, and a kubelet would start it again.
func (p *paused) running(was *process) *process {
	if was.Runs() {
		return was
	}
	return p.start()
}
