// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// traffic is a client that sends requests, also while earlier ones wait, until it is stopped. More requests than ten a second
// would measure how busy this machine is.
type traffic struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	requests int
	slowest  time.Duration
	failed   map[string]int // by kind of request
	first    struct {       // failed request
		began time.Time
		took  time.Duration
		err   error
	}
	outage time.Duration // from the first failed request to the last
}

// period is the time between two requests.
const period = 100 * time.Millisecond

// startTraffic starts a client. send sends the nth request, and returns its kind.
func startTraffic(ctx context.Context, send func(ctx context.Context, n int) (kind string, err error)) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	t := &traffic{cancel: cancel, failed: map[string]int{}}
	t.done.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			t.done.Go(func() { t.count(ctx, n, send) })
			select {
			case <-time.After(period):
			case <-ctx.Done():
			}
		}
	})
	return t
}

// stop ends the client, and waits for its requests.
func (t *traffic) stop() {
	t.cancel()
	t.done.Wait()
}

// count sends the nth request, and counts it unless the client was stopped.
func (t *traffic) count(ctx context.Context, n int, send func(context.Context, int) (string, error)) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	kind, err := send(limited, n)
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	took := time.Since(began)
	t.requests++
	t.slowest = max(t.slowest, took)
	if err == nil {
		return
	}
	t.failed[kind]++
	if t.first.err == nil {
		t.first.began, t.first.took, t.first.err = began, took, err
	}
	t.outage = max(t.outage, time.Since(t.first.began))
}

// useCluster reads the Cluster, and applies it at every second request: a read of the older version calls the conversion
// webhook, and a write the admission webhooks. The write changes nothing, so no controller works because of it.
func (j *Journey) useCluster(ctx context.Context, n int) (string, error) {
	o := cluster("v1beta1")
	err := j.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if n%2 == 1 {
		o = cluster("v1beta2")
		o.SetAnnotations(map[string]string{"example.com/user": "journey"})
		err = j.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("user"), client.ForceOwnership)
	}
	return "", err
}

func cluster(version string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "Cluster"})
	o.SetNamespace(clusterNamespace)
	o.SetName(clusterName)
	return o
}

// reportTraffic reports the requests of a client that was stopped. On a machine without free CPUs, webhooks exceed their time limits, so
// failed requests do not end the journey.
func (j *Journey) reportTraffic(t *traffic) {
	j.Report("a client made %d requests through webhooks: %d failed, the slowest took %.1f s", t.requests, t.failed[""], t.slowest.Seconds())
	if t.first.err != nil {
		j.Report("the first failed request: %s after %s: %v", t.first.began.Format(time.TimeOnly), t.first.took.Round(time.Millisecond), t.first.err)
	}
}
