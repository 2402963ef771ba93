// SPDX-License-Identifier: Apache-2.0

package managedcache_test

import (
	"context"
	"net/http"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	discard           = logr.Discard()
	connectionRefused = syscall.ECONNREFUSED
)

// quiet is a watch error handler that does not log.
func quiet(context.Context, *toolscache.Reflector, error) {}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func newQueue(t *testing.T) queue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// enqueueName enqueues the kind of event and the name of the object.
func enqueueName() handler.EventHandler {
	add := func(what string, obj client.Object, q queue) {
		name := obj.GetName()
		if name == "" {
			name = obj.GetObjectKind().GroupVersionKind().Kind
		}
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: what, Name: name}})
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { add("create", e.Object, q) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { add("update", e.ObjectNew, q) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { add("delete", e.Object, q) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { add("generic", e.Object, q) },
	}
}

// expect removes the next request from the queue and checks it.
func expect(t *testing.T, q queue, want string) {
	t.Helper()
	eventually(t, want+" is enqueued", func() bool { return q.Len() > 0 })
	request, _ := q.Get()
	q.Done(request)
	if got := request.Namespace + " " + request.Name; got != want {
		t.Errorf("%q is enqueued, want %q", got, want)
	}
}

func TestSource_PresentAndFutureInformers(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "present", nil)
	s.put(secret, "future", nil)
	c := newStarted(t, s)
	ctx := deadline(t)
	must(t, c.Watch(ctx, user("u"), kinds(configMap)))
	q := newQueue(t)
	notUnwanted := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() != "unwanted" })
	must(t, c.Source(enqueueName(), notUnwanted).Start(ctx, q))
	expect(t, q, "create present")
	must(t, c.Watch(ctx, user("u"), kinds(configMap, secret)))
	expect(t, q, "create future")
	s.put(secret, "unwanted", nil)
	s.put(secret, "future", map[string]any{"x": "y"})
	expect(t, q, "update future")
	s.remove(configMap, "present")
	expect(t, q, "delete present")
}

func TestSource_EndsWithContext(t *testing.T) {
	s := newServer(t)
	c := newStarted(t, s)
	q, other := newQueue(t), newQueue(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must(t, c.Source(enqueueName()).Start(ctx, q))
	must(t, c.Source(enqueueName()).Start(deadline(t), other))
	s.put(configMap, "a", nil)
	must(t, get(deadline(t), c, configMap, "a"))
	expect(t, q, "create a")
	expect(t, other, "create a")
	cancel()
	eventually(t, "the stopped source gets no events", func() bool {
		for q.Len() > 0 {
			request, _ := q.Get()
			q.Done(request)
		}
		s.put(configMap, "a", nil)
		expect(t, other, "update a")
		return q.Len() == 0
	})
	s.put(secret, "b", nil)
	must(t, get(deadline(t), c, secret, "b"))
	expect(t, other, "create b")
	if q.Len() != 0 {
		t.Error("a new informer calls the stopped source")
	}
}

func TestSource_KindNoLongerServed(t *testing.T) {
	s := newServer(t)
	s.mapper.Add(widget, meta.RESTScopeNamespace)
	c := newStarted(t, s)
	ctx := deadline(t)
	q := newQueue(t)
	must(t, c.Source(enqueueName()).Start(ctx, q))
	if _, err := c.GetInformer(ctx, object(widget)); err != nil {
		t.Fatal(err)
	}
	s.answer(widget, http.NotFound)
	expect(t, q, "generic Widget")
	// The kind must not cause an endless loop of a controller while it comes and goes.
	s.answer(widget, nil)
	if _, err := c.GetInformer(ctx, object(widget)); err != nil {
		t.Fatal(err)
	}
	s.answer(widget, http.NotFound)
	eventually(t, "the informer stops again", func() bool { return len(c.GetGVKs()) == 0 })
	if q.Len() != 0 {
		t.Error("a second generic event came at once")
	}
}

func TestSource_RequiresHandler(t *testing.T) {
	c := newCache(t, newServer(t))
	if err := c.Source(nil).Start(deadline(t), newQueue(t)); err == nil {
		t.Error("a source without a handler starts")
	}
}
