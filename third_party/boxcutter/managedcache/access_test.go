// SPDX-License-Identifier: Apache-2.0

package managedcache_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"pkg.package-operator.run/boxcutter/managedcache"
)

type (
	manager = managedcache.ObjectBoundAccessManager[*corev1.ConfigMap]
	mapFunc = managedcache.ConfigMapperFunc[*corev1.ConfigMap]
)

// asOwner accesses the server as a user with the name of the owner, and sees only the
// objects with the label of the owner.
func asOwner(_ context.Context, owner *corev1.ConfigMap, config *rest.Config, options cache.Options) (*rest.Config, cache.Options, error) {
	config.Impersonate.UserName = owner.Name
	options.DefaultLabelSelector = labels.SelectorFromSet(labels.Set{"owner": owner.Name})
	return config, options, nil
}

func newManager(t *testing.T, s *apiServer, mapConfig mapFunc) manager {
	t.Helper()
	options := s.options(t)
	// Its credentials are not the owners', so it must not be used.
	options.HTTPClient = &http.Client{Transport: unusable{t}}
	return managedcache.NewObjectBoundAccessManager(discard, mapConfig, &rest.Config{Host: s.URL, QPS: -1}, options)
}

type unusable struct{ t *testing.T }

func (u unusable) RoundTrip(*http.Request) (*http.Response, error) {
	u.t.Error("the HTTP client of the base options was used")
	return nil, errors.ErrUnsupported
}

func newStartedManager(t *testing.T, s *apiServer, mapConfig mapFunc) manager {
	t.Helper()
	m := newManager(t, s, mapConfig)
	start(t, m)
	return m
}

func key(owner client.Object) managedcache.AccessManagerKey {
	return managedcache.AccessManagerKey{GroupVersionKind: configMap, ObjectKey: client.ObjectKeyFromObject(owner), UID: owner.GetUID()}
}

// access returns the access of an owner, for a user, to some kinds, when it is readable.
func access(t *testing.T, m manager, owner, u *corev1.ConfigMap, gvks ...schema.GroupVersionKind) managedcache.Accessor {
	t.Helper()
	usedFor := make([]client.Object, len(gvks))
	for i, gvk := range gvks {
		usedFor[i] = object(gvk)
	}
	accessor, err := m.GetWithUser(deadline(t), owner, u, usedFor)
	must(t, err)
	waitStarted(t, accessor)
	for _, gvk := range gvks {
		must(t, client.IgnoreNotFound(get(deadline(t), accessor, gvk, "none")))
	}
	return accessor
}

func TestAccessManager_CredentialsAndFiltersByOwner(t *testing.T) {
	s := newServer(t)
	s.put(secret, "a", nil)
	m := newStartedManager(t, s, asOwner)
	for _, name := range []string{"one", "two"} {
		accessor := access(t, m, user(name), user("u"), secret)
		must(t, get(deadline(t), accessor, secret, "a"))
		if err := get(deadline(t), accessor.UnfilteredReader(), configMap, "a"); err == nil {
			t.Error("the server has an object that it must not have")
		}
		if err := accessor.Delete(deadline(t), object(configMap), client.DryRunAll); err == nil {
			t.Error("the server deletes an object that it does not have")
		}
	}
	s.with(secret, func(r *resource) {
		if !r.selectors.HasAll("owner=one@", "owner=two@") {
			t.Errorf("requests were for %v", r.selectors)
		}
		if got := slices.Compact(slices.Clone(s.users)); !cmp.Equal(got, []string{"one", "two"}) {
			t.Errorf("users of the requests: %v, want each owner", s.users)
		}
	})
}

func TestAccessManager_RetriesFailedAccess(t *testing.T) {
	failedCh := errors.New("broken")
	err := failedCh
	m := newStartedManager(t, newServer(t), func(_ context.Context, _ *corev1.ConfigMap, config *rest.Config, options cache.Options) (*rest.Config, cache.Options, error) {
		return config, options, err
	})
	if _, got := m.Get(deadline(t), user("owner")); !errors.Is(got, failedCh) {
		t.Errorf("Get: %v, want the error of the mapper", got)
	}
	err = nil
	if _, err := m.Get(deadline(t), user("owner")); err != nil {
		t.Errorf("Get with the recovered mapper: %v", err)
	}
	if _, err := m.Get(deadline(t), nil); err == nil {
		t.Error("Get without an owner succeeded")
	}
}

func TestAccessManager_AccessBeforeStart(t *testing.T) {
	s := newServer(t)
	s.put(secret, "a", nil)
	m := newManager(t, s, nil)
	accessor, err := m.GetWithUser(deadline(t), user("owner"), user("u"), []client.Object{object(secret)})
	must(t, err)
	must(t, m.Source(enqueueName()).Start(deadline(t), newQueue(t)))
	stop := start(t, m)
	waitStarted(t, accessor)
	if err := get(deadline(t), accessor, secret, "a"); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := m.Get(deadline(t), user("another")); err == nil {
		t.Error("Get succeeded after the manager stopped")
	}
	if err := m.Start(deadline(t)); err == nil {
		t.Error("the second Start succeeded")
	}
}

// watchers returns the watchers of each kind.
type watchers map[schema.GroupVersionKind][]managedcache.AccessManagerKey

func (w watchers) GetWatchersForGVK(gvk schema.GroupVersionKind) []managedcache.AccessManagerKey {
	return w[gvk]
}

func TestEnqueueWatchingObjects_OfOneKind(t *testing.T) {
	wanted := key(user("wanted"))
	unwanted := key(user("unwanted"))
	unwanted.Kind = "Secret"
	otherKind := key(user("other"))
	enqueue := managedcache.NewEnqueueWatchingObjects(watchers{secret: {unwanted, wanted}, configMap: {otherKind}}, &corev1.ConfigMap{}, testScheme(t))
	q := newQueue(t)
	typed := &corev1.Secret{}
	for name, send := range map[string]func(){
		"create":  func() { enqueue.Create(t.Context(), event.CreateEvent{Object: typed}, q) },
		"update":  func() { enqueue.Update(t.Context(), event.UpdateEvent{ObjectOld: typed, ObjectNew: typed}, q) },
		"delete":  func() { enqueue.Delete(t.Context(), event.DeleteEvent{Object: object(secret)}, q) },
		"generic": func() { enqueue.Generic(t.Context(), event.GenericEvent{Object: object(secret)}, q) },
	} {
		send()
		if q.Len() != 1 {
			t.Fatalf("%s enqueues %d requests, want 1", name, q.Len())
		}
		expect(t, q, "default wanted")
	}
	enqueue.Generic(t.Context(), event.GenericEvent{Object: object(widget)}, q)
	enqueue.Generic(t.Context(), event.GenericEvent{}, q)
	managedcache.NewEnqueueWatchingObjects(watchers{}, nil, testScheme(t)).Generic(t.Context(), event.GenericEvent{Object: object(secret)}, q)
	if q.Len() != 0 {
		t.Error("an event of a kind without watchers enqueued a request")
	}
}
