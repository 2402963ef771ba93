// SPDX-License-Identifier: Apache-2.0

package singleflight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capi-installer/capi-installer/internal/singleflight"
)

func TestGroup_OneCallerIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		var firsts, calls atomic.Int32
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				value, first, err := group.Do(t.Context(), "key", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return int(calls.Add(1)), nil
				})
				if first {
					firsts.Add(1)
				}
				if value != 1 || err != nil {
					t.Errorf("got %d, %v", value, err)
				}
			})
		}
		wait.Wait()
		if firsts.Load() != 1 {
			t.Errorf("%d were the first", firsts.Load())
		}
	})
}

var errLeft = errors.New("left")

func TestGroup_EndedCallerStartsNoCall(t *testing.T) {
	var group singleflight.Group[string, int]
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLeft)
	_, first, err := group.Do(ctx, "key", func(context.Context) (int, error) { panic("called") })
	if first || !errors.Is(err, errLeft) {
		t.Errorf("got %t, %v", first, err)
	}
}

func TestGroup_LastCallerCancelsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		ctx, cancel := context.WithCancelCause(t.Context())
		var ended atomic.Bool
		time.AfterFunc(time.Second, func() { cancel(errLeft) })
		_, _, err := group.Do(ctx, "key", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended.Store(true)
			return 0, ctx.Err()
		})
		if !errors.Is(err, errLeft) || !ended.Load() {
			t.Errorf("got %v, ended is %t", err, ended.Load())
		}
	})
}
