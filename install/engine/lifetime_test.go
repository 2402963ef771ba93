// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unansweredCache does not answer a call after its end, as the cache of the original boxcutter.
type unansweredCache struct {
	managedcache.TrackingCache
	called, slow, ended chan struct{}
}

func (c *unansweredCache) Start(ctx context.Context) error {
	<-ctx.Done()
	close(c.ended)
	return nil
}

func (c *unansweredCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	close(c.called)
	<-c.slow
	select {
	case <-c.ended:
		select {}
	default:
		return nil
	}
}

func TestOutlasting_EndsAfterTheLastCall(t *testing.T) {
	inner := &unansweredCache{called: make(chan struct{}), slow: make(chan struct{}), ended: make(chan struct{})}
	cache := &outlasting{TrackingCache: inner}
	ctx, cancel := context.WithCancel(t.Context())
	started, read := make(chan error, 1), make(chan error, 1)
	go func() { started <- cache.Start(ctx) }()
	go func() { read <- cache.Get(ctx, client.ObjectKey{}, nil) }()
	<-inner.called
	cancel()
	select {
	case <-inner.ended:
		t.Error("the cache ended during a call")
	case <-time.After(50 * time.Millisecond):
	}
	close(inner.slow)
	for what, result := range map[string]chan error{"the call": read, "the cache": started} {
		select {
		case err := <-result:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s does not end", what)
		}
	}
	if err := cache.Get(t.Context(), client.ObjectKey{}, nil); !errors.Is(err, errCacheEnded) {
		t.Errorf("a call after the end: %v", err)
	}
}
