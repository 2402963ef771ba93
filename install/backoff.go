// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The limits of the delay before a retry, so that the installer recovers soon after the cause of an error is gone.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// backoff is the rate limiter of a controller with a single request. It delays a retry by firstRetry, and twice as long,
// up to lastRetry, each time that an error repeats. Another error than before is often progress: the API server
// rejects the next object of a phase.
type backoff struct {
	mutex sync.Mutex
	// repeated counts the errors since the last success by their text.
	repeated map[string]int
	last     string
}

// maxErrors is the number of different errors after which all others count as the same, because a text can contain a time.
const maxErrors = 100

// observe returns a reconciler whose errors determine the delay, alone: controller-runtime warns of a result beside an error.
func (b *backoff) observe(reconciler reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, request)
		if err != nil {
			b.failed(err.Error())
			return reconcile.Result{}, err
		}
		return result, nil
	})
}

func (b *backoff) failed(text string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.repeated == nil {
		b.repeated = map[string]int{}
	}
	if _, known := b.repeated[text]; !known && len(b.repeated) >= maxErrors {
		text = ""
	}
	b.repeated[text]++
	b.last = text
}

// When returns the delay before the next retry.
func (b *backoff) When(reconcile.Request) time.Duration {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delay := firstRetry
	for range b.repeated[b.last] - 1 {
		delay = min(2*delay, lastRetry)
	}
	return delay
}

// Forget ends the delays after a success.
func (b *backoff) Forget(reconcile.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.repeated, b.last = nil, ""
}

// NumRequeues returns the number of errors since the last success.
func (b *backoff) NumRequeues(reconcile.Request) (sum int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, count := range b.repeated {
		sum += count
	}
	return sum
}
