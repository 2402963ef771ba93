// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// crashAtEveryWrite has the process end before and after each counted write of a rollout, each time in another rollout. next starts the rollout with
// a number, which counts from 1, and returns its version; installed is called when the version is installed. A rollout has at least 4 counted writes.
func (h *harness) crashAtEveryWrite(counts func(*http.Request) bool, next func(number int) (rollout func(), version string), installed func(number int)) {
	h.Helper()
	for i := 1; ; i++ {
		rollout, version := next(i)
		crashed := h.crash(i, counts, rollout, version)
		installed(i)
		if !crashed { // fewer writes than that
			if i < 9 {
				h.Errorf("the process ended %d times, want at least before and after each of 4 writes", i-1)
			}
			return
		}
	}
}

// crash starts a rollout, during which the process ends at a write, and is followed by another one: crash 1 is before the first
// counted write, 2 after it, 3 before the second, and so on. It returns when the version is installed, and reports whether there was such a write.
func (h *harness) crash(number int, counts func(*http.Request) bool, rollout func(), version string) bool {
	var writes, crashed atomic.Int64
	end, at := make(chan struct{}), int64(number+1)/2
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		if crashed.Load() == 0 && (!counts(request) || writes.Add(1) != at) {
			return nil
		}
		if crashed.Add(1) == 1 {
			close(end)
			if number%2 == 0 { // the write is made, and its answer lost
				return nil
			}
		}
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 the process has ended", Body: http.NoBody, Request: request, Header: http.Header{}}
	}))
	rollout()
	select {
	case <-end:
		h.stop()
		h.onRequest.Store(nil)
		h.start("4.22.0")
	case <-h.isSettled(version):
		h.onRequest.Store(nil)
	}
	h.settled(version)
	return crashed.Load() > 0
}

// isSettled closes the channel when a version is installed.
func (h *harness) isSettled(version string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for h.Unsettled(context.Background(), version) != nil {
			select {
			case <-h.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return done
}
