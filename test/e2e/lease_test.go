// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// election are the arguments of processes that compete for a lease that expires soon.
var election = []string{"--leader-elect", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s"}

// signal sends a signal to a process that runs.
func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(signal); err != nil {
		p.t.Errorf("sending %s to capi-installer: %v", signal, err)
	}
}

// TestLease_LeaderThatWasPaused pauses the leader at a write of a downgrade, and lets it continue when another process has completed
// the downgrade: it must write nothing, neither an object of the removed version nor an event.
func TestLease_LeaderThatWasPaused(t *testing.T) {
	for _, nth := range []int{2, 5, 9} {
		t.Run(fmt.Sprintf("at write %d", nth), func(t *testing.T) { pausedLeader(t, nth) })
	}
}

func pausedLeader(t *testing.T, nth int) {
	h := newHarness(t)
	a := func() { h.release(core("v1.0.0", configMap("only-a")), aws("v1.0.0")) }
	a()
	first := h.start("4.22.0", election...)
	h.settled("4.22.0-1")
	h.release(core("v2.0.0", configMap("only-b")), aws("v2.0.0"))
	h.settled("4.22.0-2")
	paused := h.Proxy.Fail(faults.Fault{
		Verbs: faults.Writes, SkipDryRuns: true, Every: nth, Times: 1, Do: func() { first.signal(syscall.SIGSTOP) },
	})
	a()
	h.eventually("the leader is paused", func() error {
		if paused() == 0 {
			return fmt.Errorf("it has not made %d writes", nth)
		}
		return nil
	})
	h.start("4.22.0", append(election, "--cache-dir="+t.TempDir())...)
	h.settled("4.22.0-3")
	before := h.content()
	first.signal(syscall.SIGCONT)
	h.eventually("the first process has ended", func() error {
		if first.Runs() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	time.Sleep(2 * time.Second) // a late write would be undone, or not
	h.must(notRight(before, h.content()))
	h.must(notRight(h.content(), before))
	h.settled("4.22.0-3")
	drift, err := h.events("DriftCorrected")
	h.must(err)
	if len(drift) > 0 {
		t.Errorf("events about drift: %s", strings.Join(drift, "\n"))
	}
}

// TestLease_LateWrite delays a write of an upgrade until another process has gone back to the previous release: by then, the version of the
// object no longer exists. The object is removed.
func TestLease_LateWrite(t *testing.T) {
	t.Run("create", func(t *testing.T) {
		lateWrite(t, faults.Fault{Verbs: []string{faults.Create}, Path: "/namespaces/" + namespace + "/configmaps", SkipDryRuns: true, Times: 1})
	})
	for nth := 1; full && nth <= 30; nth++ {
		t.Run(fmt.Sprintf("write %d", nth), func(t *testing.T) {
			lateWrite(t, faults.Fault{Verbs: faults.Writes, SkipDryRuns: true, Every: nth, Times: 1})
		})
	}
}

func lateWrite(t *testing.T, late faults.Fault) {
	h := newHarness(t)
	h.release(core("v1.0.0", configMap("only-a")), aws("v1.0.0"))
	first := h.start("4.22.0", election...)
	h.settled("4.22.0-1")
	before, leader := h.content(), h.leader()
	release := make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let)
	late.Do = func() { first.signal(syscall.SIGSTOP); <-release }
	delayed := h.Proxy.Fail(late)
	h.release(core("v2.0.0", configMap("only-b"), configMap("also-b")), aws("v2.0.0"))
	h.eventually("the leader is paused, or the upgrade is complete", func() error {
		if err := h.unsettled("4.22.0-2"); delayed() == 0 && err != nil {
			return fmt.Errorf("%w, and the write has not happened", err)
		}
		return nil
	})
	if delayed() == 0 {
		t.Skip("the upgrade has fewer writes")
	}
	h.release(core("v1.0.0", configMap("only-a")), aws("v1.0.0"))
	h.start("4.22.0", append(election, "--cache-dir="+t.TempDir())...)
	reverted := func() error {
		cluster, err := h.clusterAPI()
		if err != nil {
			return err
		}
		return errors.Join(fixture.Unsettled(cluster.Status, cluster.Status.DesiredVersion), notRight(before, h.content()), notRight(h.content(), before))
	}
	h.eventually("the other process leads", func() error {
		if led := h.leader(); led == "" || led == leader {
			return fmt.Errorf("%q leads", led)
		}
		return nil
	})
	h.eventually("the first release is installed", reverted)
	let()
	first.signal(syscall.SIGCONT)
	h.eventually("the first process has ended", func() error {
		if first.Runs() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	time.Sleep(time.Second) // the write is visible
	h.eventually("nothing of the late write is left", reverted)
}
