// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const lease, deadline, period = 137 * time.Second, 107 * time.Second, 26 * time.Second

// processes compete for one lease.
type processes struct {
	*testing.T
	client *fake.Clientset
}

// lock returns the lock of a process, with its fence.
func (p processes) lock(identity string) observedLock {
	own := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "operator", Name: leaseName}, Client: p.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	return observedLock{own, &fence{limit: lease}}
}

// lead competes until ctx ends, without a release, as a process that is killed.
func (p processes) lead(ctx context.Context, lock resourcelock.Interface) (leads chan time.Time) {
	leads = make(chan time.Time, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: period,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { leads <- time.Now() }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		p.Fatal(err)
	}
	go elector.Run(ctx)
	return leads
}

// A container that was restarted leads at once; another pod waits until the lease has expired. Writes of another pod can arrive late until the
// duration of a lease after the pod took over, also after a restart of its container.
func TestLease_OfTheSamePod(t *testing.T) {
	for _, test := range []struct {
		next         string
		led          time.Duration // by the first process
		atOnce, late bool
	}{
		{"pod-a_1", 0, true, true}, {"pod-a_1", 2 * lease, true, false}, {"pod-a_2", 2 * lease, false, true}, {"pod-b_1", 0, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := processes{t, fake.NewClientset()}
			ctx, kill := context.WithCancel(t.Context())
			<-p.lead(ctx, p.lock("pod-a_1"))
			time.Sleep(test.led)
			kill()
			synctest.Wait()
			began := time.Now()
			lock := p.lock(test.next)
			after := (<-p.lead(t.Context(), lock)).Sub(began)
			if atOnce := after < time.Second; atOnce != test.atOnce || after > lease+3*period {
				t.Errorf("%+v: leads after %s", test, after)
			}
			if late := time.Until(lock.fence.lateWrites()); (late > lease-time.Minute) != test.late || late > lease {
				t.Errorf("%+v: waits %s for late writes", test, late)
			}
		})
	}
}

// A lease that was released has no former leader that can write.
func TestLease_Released(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := processes{t, fake.NewClientset()}
		released, first := p.lock("pod-a_1"), p.lock("pod-b_1")
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "pod-a_1", LeaseDurationSeconds: int(lease.Seconds()), RenewTime: metav1.Now()}
		if err := released.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if _, _, err := first.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1 // as client-go does
		if err := released.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		<-p.lead(t.Context(), first)
		if late := first.fence.lateWrites(); !late.IsZero() {
			t.Errorf("writes are awaited until %s", late)
		}
	})
}

// A process without leader election does not start while another one leads.
func TestLease_HeldByAnotherInstaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := processes{t, fake.NewClientset()}
		own := p.lock("workstation")
		if err := leads(t.Context(), own); err != nil {
			t.Errorf("without a lease: %v", err)
		}
		ctx, kill := context.WithCancel(t.Context())
		<-p.lead(ctx, p.lock("pod-a_1"))
		if err := leads(t.Context(), own); err == nil || !strings.Contains(err.Error(), "pod-a_1 holds lease operator/"+leaseName) {
			t.Errorf("while another process leads: %v", err)
		}
		kill()
		time.Sleep(lease + time.Second)
		if err := leads(t.Context(), own); err != nil {
			t.Errorf("after the lease has expired: %v", err)
		}
	})
}

// write sends a request through the fence of a lock.
func write(lock observedLock, method, path string) error {
	transport := lock.fence.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	response, err := transport.RoundTrip(httptest.NewRequest(method, "https://example.com"+path, strings.NewReader("{}")))
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

// A process writes only from its first renewal until the lease ends, also if client-go has not noticed that.
func TestFence_RefusesWritesAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := processes{t, fake.NewClientset()}
		lock := p.lock("pod-a_1")
		refused := func() bool {
			return errors.As(write(lock, http.MethodPatch, "/api/v1/namespaces/a/configmaps/b"), new(*expiredError))
		}
		if !refused() {
			t.Error("a process that does not lead may write")
		}
		<-p.lead(t.Context(), lock)
		time.Sleep(10 * lease)
		if refused() {
			t.Error("the leader may not write")
		}
		p.client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
		time.Sleep(lease - 2*period)
		if refused() {
			t.Error("the leader may not write before its lease ends")
		}
		time.Sleep(2 * period)
		if !refused() {
			t.Error("a leader without a renewal may write")
		}
		for _, review := range []string{"/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"} {
			if err := write(lock, http.MethodPost, review); err != nil {
				t.Errorf("POST %s: %v", review, err)
			}
		}
		if err := write(lock, http.MethodGet, "/api/v1/namespaces/a/configmaps/b"); err != nil {
			t.Errorf("a read is refused: %v", err)
		}
	})
}

// The clients of a process that takes part in the election write nothing without the lease.
func TestLock_FencesClients(t *testing.T) {
	sent := errors.New("sent")
	for elect, want := range map[bool]bool{false: true, true: false} {
		config := &rest.Config{Host: "http://127.0.0.1"}
		f := &flags{leaderElect: elect, namespace: "operator", identity: "pod-a_1", leaseDuration: lease}
		if _, _, err := f.lock(config); err != nil {
			t.Fatal(err)
		}
		config.Transport = roundTripper(func(*http.Request) (*http.Response, error) { return nil, sent })
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Post(config.Host, "", nil); errors.Is(err, sent) != want { //nolint:bodyclose,noctx // no response
			t.Errorf("with election %t: %v", elect, err)
		}
	}
}

// A released lease is not renewed.
func TestFence_ReleasedLease(t *testing.T) {
	p := processes{t, fake.NewClientset()}
	lock := p.lock("pod-a_1")
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "pod-a_1"}); err != nil || lock.fence.check() != nil {
		t.Fatalf("after the creation: %v, %v", err, lock.fence.check())
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || lock.fence.check() == nil {
		t.Errorf("after the release: %v, and writes are accepted", err)
	}
}

func TestIdentity_OfThePod(t *testing.T) {
	t.Setenv("POD_NAME", "capi-installer-x")
	t.Setenv("POD_UID", "1")
	if got := identity(); got != "capi-installer-x_1" {
		t.Errorf("the identity in a pod is %s", got)
	}
	t.Setenv("POD_UID", "")
	if first, second := identity(), identity(); first == second {
		t.Error("two processes outside a pod have the same identity")
	}
}
