// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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

// answer is a reader whose answer to each request is an error.
type answer struct{ error }

func (a answer) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.error
}
func (a answer) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.error }

// cached are the namespaces of the cache in tests.
var cached = Namespaces{v1alpha1.OpenShiftNamespaces.Operand, "capi-system", "capa-system"}

// Objects in other namespaces are read from the API server. Without read access, they do not exist.
func TestReader_Namespaces(t *testing.T) {
	forbidden, unavailable := apierrors.NewForbidden(schema.GroupResource{}, "x", nil), apierrors.NewServiceUnavailable("down")
	fromCache := errors.New("read from the cache")
	for namespace, fast := range map[string]bool{"": true, "capi-system": true, "capa-system": true, v1alpha1.OpenShiftNamespaces.Operator: false, "kube-system": false} {
		key := client.ObjectKey{Namespace: namespace, Name: "x"}
		err := Reader{answer{fromCache}, answer{forbidden}, cached}.Get(t.Context(), key, settings("x", ""))
		if fast != errors.Is(err, fromCache) || !fast && !apierrors.IsNotFound(err) {
			t.Errorf("namespace %q: got %v, want the answer of the cache: %t, else not found", namespace, err, fast)
		}
	}
	if err := (Reader{Live: answer{unavailable}}).Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "x"}, settings("x", "")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want the error of the API server", err)
	}
}

// sharing is a cache whose objects are not copied.
type sharing struct {
	client.Reader
	object *unstructured.Unstructured
}

func (s sharing) Get(_ context.Context, _ client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	*out.(*unstructured.Unstructured) = *s.object
	return nil
}

// A read shares its fields with the cache only if it asks for that.
func TestReader_Copies(t *testing.T) {
	for _, options := range [][]client.GetOption{nil, {client.UnsafeDisableDeepCopy}} {
		obj, out := settings("a", "red"), settings("", "")
		if err := (Reader{Reader: sharing{object: obj}}).Get(t.Context(), client.ObjectKeyFromObject(obj), out, options...); err != nil {
			t.Fatal(err)
		}
		out.SetName("changed")
		if shared := obj.GetName() == "changed"; shared != (options != nil) {
			t.Errorf("options %v: shared: %t", options, shared)
		}
	}
}
