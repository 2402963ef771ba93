// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Trigger has the version controller run at once, and forget how often it has
// failed. It is for inputs that only the fetcher knows: credentials, mirrors,
// certificates, proxies. Whoever sees one of them change calls Fire.
type Trigger struct{ fired chan struct{} }

// NewTrigger returns a trigger for one controller.
func NewTrigger() *Trigger { return &Trigger{fired: make(chan struct{}, 1)} }

// Fire asks for a run. It never waits; calls before the run begins are one.
func (t *Trigger) Fire() {
	select {
	case t.fired <- struct{}{}:
	default: // there is a call already that nobody has heard
	}
}

// Source is what the controller watches.
func (t *Trigger) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go t.forward(ctx, queue)
		return nil
	})
}

func (t *Trigger) forward(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.fired:
			enqueue(queue)
		}
	}
}

// enqueue has the controller run at once, also where it waits to try again.
func enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: v1alpha1.ClusterAPIName}}
	queue.Forget(request)
	queue.Add(request)
}
