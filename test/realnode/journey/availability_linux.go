// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// user is a client that reads and applies the Cluster ten times a second: a read of the older version calls the conversion
// webhook, and a write the admission webhooks. The write changes nothing, so no controller works because of it.
type user struct {
	client client.Client
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	requests int
	failed   []string
	slowest  time.Duration
}

// period is the time between two requests.
const period = 100 * time.Millisecond

// work starts a user, until report.
func (j *Journey) work(ctx context.Context) *user {
	ctx, stop := context.WithCancel(ctx)
	u := &user{client: j.client, stop: stop}
	u.done.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			u.done.Go(func() { u.request(ctx, n) })
			select {
			case <-time.After(period):
			case <-ctx.Done():
			}
		}
	})
	return u
}

// request makes one request, and counts it unless the user has stopped.
func (u *user) request(ctx context.Context, n int) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	err := u.read(limited)
	if n%2 == 1 {
		err = u.apply(limited)
	}
	if ctx.Err() != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests++
	u.slowest = max(u.slowest, time.Since(began))
	if err != nil {
		u.failed = append(u.failed, fmt.Sprintf("%s after %s: %v", began.Format(time.TimeOnly), time.Since(began).Round(time.Millisecond), err))
	}
}

func cluster(version string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "Cluster"})
	o.SetNamespace(clusterNamespace)
	o.SetName(clusterName)
	return o
}

func (u *user) read(ctx context.Context) error {
	o := cluster("v1beta1")
	return u.client.Get(ctx, client.ObjectKeyFromObject(o), o)
}

func (u *user) apply(ctx context.Context) error {
	o := cluster("v1beta2")
	o.SetAnnotations(map[string]string{"example.com/user": "journey"})
	return u.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("user"), client.ForceOwnership)
}

// report stops the user, and reports its requests. On a machine without free CPUs, webhooks exceed their time limits, so
// failed requests do not end the journey.
func (u *user) report(j *Journey) {
	u.stop()
	u.done.Wait()
	j.Report("a client made %d requests through webhooks: %d failed, the slowest took %.1f s", u.requests, len(u.failed), u.slowest.Seconds())
	if len(u.failed) > 0 {
		j.Report("the first failed request: %s", u.failed[0])
	}
}
