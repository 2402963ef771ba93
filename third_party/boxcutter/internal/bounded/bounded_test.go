// SPDX-License-Identifier: Apache-2.0

package bounded_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pkg.package-operator.run/boxcutter/internal/bounded"
)

var errBad = errors.New("bad")

func always(error) bool { return true }
func never(error) bool  { return false }

// watched counts concurrent calls and records the started ones.
type watched struct {
	mu      sync.Mutex
	running int
	most    int
	begun   []int
}

func (w *watched) enter(item int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
	w.most = max(w.most, w.running)
	w.begun = append(w.begun, item)
}

func (w *watched) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
}

func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestBounded_RunsUpToLimit(t *testing.T) {
	for _, limit := range []int{2, 3, 8} {
		synctest.Test(t, func(t *testing.T) {
			var w watched
			outcomes := bounded.Do(numbers(20), limit, always, func(item int) (int, error) {
				w.enter(item)
				defer w.leave()
				time.Sleep(time.Duration(20-item) * time.Second)
				return item * item, nil
			})
			if w.most != limit {
				t.Errorf("limit %d: %d concurrent calls", limit, w.most)
			}
			for i, outcome := range outcomes {
				if outcome.Result != i*i {
					t.Errorf("limit %d: result %d is %d", limit, i, outcome.Result)
				}
			}
		})
	}
}

func TestBounded_LimitBelowTwoIsSequential(t *testing.T) {
	for _, limit := range []int{-1, 0, 1} {
		var w watched
		bounded.Do(numbers(5), limit, always, func(item int) (int, error) {
			w.enter(item)
			defer w.leave()
			return 0, nil
		})
		if diff := cmp.Diff(numbers(5), w.begun); diff != "" || w.most != 1 {
			t.Errorf("limit %d: %d concurrent calls, order (-want +got):\n%s", limit, w.most, diff)
		}
	}
}

func TestBounded_StartsNothingAfterStop(t *testing.T) {
	for _, limit := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			var w watched
			outcomes := bounded.Do(numbers(20), limit, always, func(item int) (int, error) {
				w.enter(item)
				defer w.leave()
				if item == 0 {
					time.Sleep(time.Second)
					return 0, errBad
				}
				time.Sleep(time.Minute)
				return item, nil
			})
			if len(w.begun) != limit || len(outcomes) != limit || !errors.Is(outcomes[0].Err, errBad) {
				t.Errorf("limit %d: %d calls started, outcomes: %v", limit, len(w.begun), outcomes)
			}
		})
	}
}

func TestBounded_OtherErrorsAreOutcomes(t *testing.T) {
	outcomes := bounded.Do(numbers(6), 3, never, func(item int) (int, error) {
		if item%2 == 0 {
			return 0, errBad
		}
		return item, nil
	})
	want := []bounded.Outcome[int]{{Err: errBad}, {Result: 1}, {Err: errBad}, {Result: 3}, {Err: errBad}, {Result: 5}}
	if diff := cmp.Diff(want, outcomes, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || a == b })); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestBounded_PanicReachesCaller(t *testing.T) {
	for _, limit := range []int{1, 4} {
		func() {
			defer func() {
				reason := recover()
				text, _ := reason.(string)
				if !strings.Contains(text, "probe of doom") {
					t.Errorf("limit %d: recovered %v", limit, reason)
				}
			}()
			bounded.Do(numbers(9), limit, always, func(item int) (int, error) {
				if item == 1 {
					panic("probe of doom")
				}
				return 0, nil
			})
		}()
	}
}
