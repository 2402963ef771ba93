// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/faults"
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
