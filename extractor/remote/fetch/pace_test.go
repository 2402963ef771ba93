// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"testing"
	"time"
)

func TestAllowance(t *testing.T) {
	type wait struct {
		seconds float64
		kib     int64 // -1: the wait ended without data
	}
	repeat := func(n int, w wait) []wait {
		var all []wait
		for range n {
			all = append(all, w)
		}
		return all
	}
	for name, test := range map[string]struct {
		waits []wait
		left  float64 // seconds of 20, at 256 KiB/s
	}{
		"a sound source":               {repeat(1000, wait{1, 300}), 20},
		"a slow source":                {repeat(10, wait{1, 64}), 12.5},
		"bursts earn waits back":       {[]wait{{8, 256}, {0, 4096}}, 20},
		"half of the lowest rate":      {repeat(20, wait{1, 128}), 10},
		"silence is not earned back":   {[]wait{{5, -1}, {0, 1 << 20}}, 15},
		"each silence counts":          {[]wait{{5, -1}, {0, 1 << 20}, {5, -1}, {0, 1 << 20}}, 10},
		"bytes do not raise the limit": {[]wait{{0, 1 << 20}, {10, 0}}, 10},
	} {
		p := Pace{Silence: 15 * time.Second, Detour: 20 * time.Second, Patience: 20 * time.Second, Rate: 256 << 10}
		a := p.allowances().patience
		for _, w := range test.waits {
			d := time.Duration(w.seconds * float64(time.Second))
			if w.kib < 0 {
				a.lose(d)
			} else {
				a.wait(d, w.kib<<10)
			}
		}
		if got := a.left.Seconds(); got < test.left-0.01 || got > test.left+0.01 {
			t.Errorf("%s: %.2f s left, want %.2f", name, got, test.left)
		}
	}
}

// TestAllowance_Hopeless: a source is left before its time is used up if the rest would use up more, but only if another one is left.
func TestAllowance_Hopeless(t *testing.T) {
	for name, test := range map[string]struct {
		kib, rest int64
		seconds   float64
		want      bool
	}{
		"16 KiB/s, 1 MiB left":        {96, 1 << 10, 6, true},
		"64 KiB/s, 1 MiB left":        {384, 1 << 10, 6, false},
		"64 KiB/s, 5 MiB left":        {384, 5 << 10, 6, true},
		"2 MiB/s, 1 GiB left":         {12 << 10, 1 << 20, 6, false},
		"nothing yet":                 {0, 1 << 10, 6, true},
		"too early to know":           {16, 1 << 10, 1, false},
		"an unknown size":             {16, -1, 6, false},
		"900 KiB/s, 100 MiB left":     {5400, 100 << 10, 6, false},
		"900 KiB/s, 1000 MiB left":    {5400, 1000 << 10, 6, true},
		"the lowest rate, 1 TiB left": {6 << 10, 1 << 30, 6, false},
	} {
		took := time.Duration(test.seconds * float64(time.Second))
		both := Pace{}.orDefaults().allowances()
		if got := both.detour.hopeless(test.kib<<10, test.rest<<10, took); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		if both.patience.hopeless(test.kib<<10, test.rest<<10, took) {
			t.Errorf("%s: the last source is left", name)
		}
	}
}

// TestAllowance_LeastTime: sources after one that used up the allowance get a little time for the first bytes.
func TestAllowance_LeastTime(t *testing.T) {
	a := Pace{}.orDefaults().allowances().detour
	a.lose(time.Minute)
	if !a.empty() {
		t.Error("time is left")
	}
	if limit, late := a.timeout(errStalled); limit != 0 || late != errSlow {
		t.Errorf("got %s, %v", limit, late)
	}
	a.start()
	if limit, late := a.timeout(errStalled); limit != 5*time.Second || late != errSlow {
		t.Errorf("got %s, %v", limit, late)
	}
}
