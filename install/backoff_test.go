// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// delays returns the delays after results of a controller; "" is a success.
func delays(results ...string) (found []time.Duration) {
	b := &backoff{}
	for _, text := range results {
		failing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New(text)
		})
		if text == "" {
			b.Forget(clusterAPIRequest)
			continue
		}
		_, _ = b.observe(failing).Reconcile(context.Background(), clusterAPIRequest)
		found = append(found, b.When(clusterAPIRequest)/time.Second)
	}
	return found
}

func TestBackoff(t *testing.T) {
	many := make([]string, 2*maxErrors)
	for i := range many {
		many[i] = fmt.Sprintf("after %d ms", i)
	}
	for name, test := range map[string]struct {
		results []string
		want    []time.Duration // in seconds
	}{
		"an error repeats":       {[]string{"a", "a", "a", "a", "a", "a", "a"}, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		"each object fails once": {[]string{"a", "b", "c", "d"}, []time.Duration{1, 1, 1, 1}},
		"two errors alternate":   {[]string{"a", "b", "a", "b", "a", "b"}, []time.Duration{1, 1, 2, 2, 4, 4}},
		"after a success":        {[]string{"a", "a", "", "a"}, []time.Duration{1, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, delays(test.results...)); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
		})
	}
	if got := delays(many...); got[maxErrors-1] != 1 || got[len(got)-1] != lastRetry/time.Second {
		t.Errorf("errors with times are retried after %d s, then after %d s", got[maxErrors-1], got[len(got)-1])
	}
	b := &backoff{}
	b.failed("a")
	b.failed("b")
	if got := b.NumRequeues(clusterAPIRequest); got != 2 {
		t.Errorf("%d retries, want 2", got)
	}
}

func TestBackoff_ResultOrError(t *testing.T) {
	later := reconcile.Result{RequeueAfter: time.Minute}
	for name, test := range map[string]struct {
		err  error
		want reconcile.Result
	}{"success": {nil, later}, "error": {errors.New("a"), reconcile.Result{}}} {
		reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return later, test.err })
		if got, err := (&backoff{}).observe(reconciler).Reconcile(t.Context(), clusterAPIRequest); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, test.want)
		}
	}
}
