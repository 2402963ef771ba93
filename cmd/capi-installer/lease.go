// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A process that was paused, or whose node was, may wake up after its lease has expired and another
// process has taken over. client-go lets it go on until its next attempt to renew the lease fails, at
// the latest at the renew deadline. So each write is refused once the last successful renewal is older
// than the lease.

// leaseName is the name of the lease.
const leaseName = "capi-installer"

// fence refuses the writes of a process whose lease may have expired. The zero renewal time stands for a process that never led.
type fence struct {
	// limit is the duration of the lease.
	limit time.Duration

	mu      sync.Mutex
	renewed time.Time // by the monotonic clock
	// unreleased is set while a process holds the lease, and late is the time until a write of a former holder can arrive: it counts from the moment
	// when this pod has taken over, which the lease has also after a restart of the container.
	unreleased bool
	late       time.Time
}

// expiredError is the error of a refused write.
type expiredError struct{ since time.Duration }

func (e *expiredError) Error() string {
	return fmt.Sprintf("write refused: lease %s was last renewed %s ago, and another process may lead", leaseName, e.since.Round(time.Second))
}

// set records the time before a successful renewal of a lease, and the time when it was acquired; at is zero after the lease was released.
func (f *fence) set(at, acquired time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = at
	if f.unreleased && !at.IsZero() {
		f.unreleased, f.late = false, acquired.Add(f.limit)
	}
}

// seen records whether a process holds the lease.
func (f *fence) seen(unreleased bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unreleased = unreleased
}

// lateWrites returns the time until a write of a former leader can arrive; zero if the lease was released, or new.
func (f *fence) lateWrites() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late
}

// check returns an error if the lease may have expired.
func (f *fence) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since := time.Since(f.renewed); since >= f.limit {
		return &expiredError{since}
	}
	return nil
}

// wrap returns a transport that checks the lease before each write.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if isWrite(request) {
			if err := f.check(); err != nil {
				if request.Body != nil {
					_ = request.Body.Close() // as a RoundTripper must
				}
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// isWrite reports whether a request changes an object. Reviews only ask a question; the metrics server of
// every process sends them.
func isWrite(request *http.Request) bool {
	review := strings.HasPrefix(request.URL.Path, "/apis/authentication.k8s.io/") || strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/")
	return request.Method != http.MethodGet && request.Method != http.MethodHead && !review
}

// observedLock is a lock that reports each renewal and each holder to a fence.
type observedLock struct {
	resourcelock.Interface
	fence *fence
}

// Get implements resourcelock.Interface.
func (l observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.fence.seen(record.HolderIdentity != "")
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.observe(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.observe(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l observedLock) observe(record resourcelock.LeaderElectionRecord, write func() error) error {
	began := time.Now() // the lease lasts from a moment after this one
	if err := write(); err != nil {
		return err
	}
	if record.HolderIdentity != l.Identity() {
		began = time.Time{}
	}
	l.fence.set(began, record.AcquireTime.Time)
	return nil
}

// heldByOther returns an error if this process does not take part in the leader election and another one leads: both would write. A lease
// that cannot be read is no such error.
func (f *flags) heldByOther(ctx context.Context, config *rest.Config) error {
	if f.leaderElect {
		return nil
	}
	lock, err := f.newLock(config, identity())
	if err != nil {
		return err
	}
	return leads(ctx, lock)
}

func (f *flags) newLock(config *rest.Config, identity string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, f.namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: identity}, rest.CopyConfig(config), f.renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease: %w", err)
	}
	return lock, nil
}

// leads returns an error if a process holds the lease.
func leads(ctx context.Context, lock resourcelock.Interface) error {
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity == "" || time.Since(record.RenewTime.Time) > time.Duration(record.LeaseDurationSeconds)*time.Second {
		return nil //nolint:nilerr // without a readable lease, nothing is known of another process
	}
	return fmt.Errorf("another installer works in this cluster: %s holds lease %s; scale its Deployment to 0 and wait %d s, or start this one with --leader-elect, so that it waits",
		record.HolderIdentity, lock.Describe(), record.LeaseDurationSeconds)
}

// lock returns the lock for leader election, and has the clients of config check the lease before each write. Without election, the lock is nil, and
// the fence refuses nothing.
func (f *flags) lock(config *rest.Config) (resourcelock.Interface, *fence, error) {
	fence := &fence{limit: f.leaseDuration}
	if !f.leaderElect {
		return nil, fence, nil
	}
	lock, err := f.newLock(config, f.identity)
	if err != nil {
		return nil, nil, err
	}
	config.Wrap(fence.wrap)
	return observedLock{lock, fence}, fence, nil
}

// identity returns the identity of the process in the lease. In a pod it is the pod's: a restarted container holds the lease of
// its ended predecessor, and leads at once. Elsewhere, two processes of one host can run.
func identity() string {
	if name, uid := os.Getenv("POD_NAME"), os.Getenv("POD_UID"); name != "" && uid != "" {
		return name + "_" + uid
	}
	host, _ := os.Hostname()
	return cmp.Or(host, "capi-installer") + "_" + string(uuid.NewUUID())
}
