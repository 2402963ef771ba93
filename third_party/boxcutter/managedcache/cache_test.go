// SPDX-License-Identifier: Apache-2.0

package managedcache_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/managedcache"
)

func TestTrackingCache_ReadersShareInformer(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "a", nil)
	c := newStarted(t, s)
	ctx := deadline(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := get(ctx, c, configMap, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.requests(configMap); n != 1 {
		t.Errorf("20 readers made %d requests for lists and watches, want 1", n)
	}
	if err := get(ctx, c, configMap, "b"); !apierrors.IsNotFound(err) {
		t.Errorf("reading an object that does not exist: %v", err)
	}
}

func TestTrackingCache_ReadsAnyForm(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "a", map[string]any{"x": "y"})
	c := newStarted(t, s)
	unstructuredList := &unstructured.UnstructuredList{}
	unstructuredList.SetGroupVersionKind(configMap.GroupVersion().WithKind("ConfigMapList"))
	metadataList := &metav1.PartialObjectMetadataList{}
	metadataList.SetGroupVersionKind(configMap.GroupVersion().WithKind("ConfigMapList"))
	for _, list := range []client.ObjectList{unstructuredList, metadataList, &corev1.ConfigMapList{}} {
		if err := c.List(deadline(t), list, client.MatchingLabels{"x": "y"}); err != nil {
			t.Fatalf("%T: %v", list, err)
		}
		if n := meta.LenList(list); n != 1 {
			t.Errorf("%T: %d objects, want 1", list, n)
		}
	}
	want := []schema.GroupVersionKind{configMap}
	if diff := cmp.Diff(want, c.GetGVKs()); diff != "" {
		t.Errorf("GetGVKs: %s", diff)
	}
	counts, err := c.GetObjectsPerInformer(deadline(t))
	if err != nil || counts[configMap] != 1 {
		t.Errorf("GetObjectsPerInformer counts %v, %v, want 1 for one object", counts, err)
	}
	if err := c.RemoveOtherInformers(deadline(t), nil); err != nil || len(c.GetGVKs()) != 0 {
		t.Errorf("after RemoveOtherInformers(none): %v, %v", err, c.GetGVKs())
	}
}

func TestTrackingCache_UsableBeforeStart(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "a", nil)
	c := newCache(t, s)
	ctx := deadline(t)
	must(t, c.Watch(ctx, user("u"), kinds(configMap)))
	var notStarted *cache.ErrCacheNotStarted
	if err := get(ctx, c, configMap, "a"); !errors.As(err, &notStarted) {
		t.Errorf("reading before Start: %v, want %T", err, notStarted)
	}
	informer, err := c.GetInformer(ctx, object(secret))
	must(t, err)
	start(t, c)
	waitStarted(t, c)
	if !informer.HasSynced() {
		t.Error("an informer from before Start is not synced after WaitForCacheSync")
	}
	if err := get(ctx, c, configMap, "a"); err != nil {
		t.Error(err)
	}
	if err := c.Start(ctx); err == nil {
		t.Error("the second Start succeeded")
	}
}

func TestTrackingCache_ForbiddenKindReachesReaders(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"forbidden": refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		"not found": http.NotFound,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.put(secret, "a", nil)
			s.answer(configMap, answer)
			c := newStarted(t, s)
			ctx := deadline(t)
			must(t, c.Watch(ctx, user("u"), kinds(configMap, secret)))
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					err := get(ctx, c, configMap, "a")
					if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
						t.Errorf("reading a forbidden kind: %v", err)
					}
				})
			}
			wg.Wait()
			if err := get(ctx, c, secret, "a"); err != nil {
				t.Error(err)
			}
			eventually(t, "only the other kind has an informer", func() bool {
				return cmp.Equal(c.GetGVKs(), []schema.GroupVersionKind{secret})
			})
			s.put(configMap, "a", nil)
			s.answer(configMap, nil)
			if err := get(ctx, c, configMap, "a"); err != nil {
				t.Errorf("reading a kind that is served again: %v", err)
			}
		})
	}
}

func TestTrackingCache_KindRemovedAndAdded(t *testing.T) {
	s := newServer(t)
	s.mapper.Add(widget, meta.RESTScopeNamespace)
	s.put(widget, "a", nil)
	c := newStarted(t, s)
	ctx := deadline(t)
	must(t, c.Watch(ctx, user("u"), kinds(widget)))
	must(t, get(ctx, c, widget, "a"))
	s.answer(widget, http.NotFound)
	eventually(t, "the informer of the kind that is gone stops", func() bool { return len(c.GetGVKs()) == 0 })
	if err := get(ctx, c, widget, "a"); !apierrors.IsNotFound(err) {
		t.Errorf("reading a removed kind: %v", err)
	}
	s.answer(widget, nil)
	must(t, c.Watch(ctx, user("u"), kinds(widget)))
	if diff := cmp.Diff([]schema.GroupVersionKind{widget}, c.GetGVKs()); diff != "" {
		t.Errorf("after Watch: %s", diff)
	}
	if err := get(ctx, c, widget, "a"); err != nil {
		t.Error(err)
	}
}

func TestTrackingCache_RetryableErrorReachesReaders(t *testing.T) {
	plain := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "unavailable", http.StatusInternalServerError)
	}
	garbage := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) }
	for name, answer := range map[string]http.HandlerFunc{
		"internal error": plain, "not a valid response": garbage, "unavailable": refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.put(configMap, "a", nil)
			s.answer(configMap, answer)
			c := newStarted(t, s, func(o *cache.Options) { o.DefaultWatchErrorHandler = quiet })
			ctx := deadline(t)
			if err := get(ctx, c, configMap, "a"); err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
				t.Fatalf("reading from a failing server: %v", err)
			}
			if len(c.GetGVKs()) != 1 {
				t.Error("the informer was stopped")
			}
			s.answer(configMap, nil)
			if err := get(ctx, c, configMap, "a"); err != nil {
				t.Errorf("reading from the recovered server: %v", err)
			}
		})
	}
}

func TestTrackingCache_UnreachableServerReachesReaders(t *testing.T) {
	s := newServer(t)
	var dials sync.Map
	c := newStarted(t, s, func(o *cache.Options) {
		o.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials.Store("dialled", true)
			return nil, &net.OpError{Op: "dial", Err: connectionRefused}
		}}}
	})
	ctx := deadline(t)
	err := get(ctx, c, configMap, "a")
	if !utilnet.IsConnectionRefused(err) {
		t.Errorf("reading without a server: %v", err)
	}
	if _, dialled := dials.Load("dialled"); !dialled {
		t.Error("the cache did not try to connect")
	}
}

func TestTrackingCache_RemovedInformerReleasesReaders(t *testing.T) {
	s := newServer(t)
	s.answer(configMap, hang(nil))
	c := newStarted(t, s)
	ctx := deadline(t)
	errs := make(chan error, 5)
	for range cap(errs) {
		go func() { errs <- get(ctx, c, configMap, "a") }()
	}
	eventually(t, "the kind is listed", func() bool { return s.requests(configMap) > 0 })
	time.Sleep(20 * time.Millisecond) // No reader can have returned yet, and all should be waiting.
	if len(errs) != 0 {
		t.Fatalf("a read returned before the list: %v", <-errs)
	}
	if err := c.Free(ctx, user("other")); err != nil {
		t.Error(err)
	}
	if len(c.GetGVKs()) != 1 {
		t.Error("Free stopped an informer with waiting reads")
	}
	must(t, c.RemoveInformer(ctx, object(configMap)))
	for range cap(errs) {
		if err := <-errs; err == nil || ctx.Err() != nil {
			t.Errorf("a read after the removal of its informer: %v", err)
		}
	}
}

func TestTrackingCache_ReadEndsWithContext(t *testing.T) {
	s := newServer(t)
	s.answer(configMap, hang(nil))
	c := newStarted(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := get(ctx, c, configMap, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reading past the deadline: %v", err)
	}
	if err := get(ctx, c, configMap, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reading after the deadline: %v", err)
	}
}

func TestTrackingCache_StopReleasesReaders(t *testing.T) {
	s := newServer(t)
	s.answer(configMap, hang(nil))
	c := newCache(t, s)
	stop := start(t, c)
	waitStarted(t, c)
	ctx := deadline(t)
	errs := make(chan error)
	go func() { errs <- get(ctx, c, configMap, "a") }()
	eventually(t, "the kind is listed", func() bool { return s.requests(configMap) > 0 })
	stop()
	if err := <-errs; err == nil || ctx.Err() != nil {
		t.Errorf("a read when the cache stops: %v", err)
	}
	if err := get(ctx, c, secret, "a"); err == nil || ctx.Err() != nil {
		t.Errorf("a read after the cache has stopped: %v", err)
	}
}

func TestTrackingCache_KindNotServedYet(t *testing.T) {
	s := newServer(t)
	s.put(widget, "a", nil)
	c := newStarted(t, s, func(o *cache.Options) { o.ReaderFailOnMissingInformer = true })
	ctx := deadline(t)
	if err := c.Watch(ctx, user("u"), kinds(widget, configMap)); err != nil {
		t.Fatalf("watching a kind that is not served: %v", err)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{configMap}, c.GetGVKs()); diff != "" {
		t.Errorf("kinds with informers: %s", diff)
	}
	if err := get(ctx, c, widget, "a"); !meta.IsNoMatchError(err) {
		t.Errorf("reading a kind that is not served: %v, want no match", err)
	}
	s.mapper.Add(widget, meta.RESTScopeNamespace)
	if err := get(ctx, c, widget, "a"); err != nil {
		t.Errorf("reading a kind that is now served: %v", err)
	}
}

func TestTrackingCache_ReadWithoutInformer(t *testing.T) {
	s := newServer(t)
	c := newStarted(t, s, func(o *cache.Options) { o.ReaderFailOnMissingInformer = true })
	var notCached *cache.ErrResourceNotCached
	if err := get(deadline(t), c, configMap, "a"); !errors.As(err, &notCached) {
		t.Errorf("reading a kind without informer: %v, want %T", err, notCached)
	}
}

func TestTrackingCache_InformerLivesWithUsers(t *testing.T) {
	s := newServer(t)
	c := newStarted(t, s)
	ctx := deadline(t)
	steps := []struct {
		name string
		do   func() error
		want []schema.GroupVersionKind
	}{
		{"one watches both kinds", func() error { return c.Watch(ctx, user("one"), kinds(configMap, secret)) }, []schema.GroupVersionKind{configMap, secret}},
		{"two watches one kind", func() error { return c.Watch(ctx, user("two"), kinds(secret)) }, []schema.GroupVersionKind{configMap, secret}},
		{"one watches another kind", func() error { return c.Watch(ctx, user("one"), kinds(configMap)) }, []schema.GroupVersionKind{configMap, secret}},
		{"two is freed", func() error { return c.Free(ctx, user("two")) }, []schema.GroupVersionKind{configMap}},
		{"an unknown owner is freed", func() error { return c.Free(ctx, user("three")) }, []schema.GroupVersionKind{configMap}},
		{"a kind without watchers is read", func() error { return client.IgnoreNotFound(get(ctx, c, secret, "x")) }, []schema.GroupVersionKind{configMap, secret}},
		{"one watches the same", func() error { return c.Watch(ctx, user("one"), kinds(configMap)) }, []schema.GroupVersionKind{configMap}},
		{"all informers are removed", func() error { return c.RemoveOtherInformers(ctx, nil) }, nil},
		{"a watched kind is read", func() error { return client.IgnoreNotFound(get(ctx, c, configMap, "x")) }, []schema.GroupVersionKind{configMap}},
		{"one watches nothing", func() error { return c.Watch(ctx, user("one"), nil) }, nil},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, c.GetGVKs()); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

func TestTrackingCache_IndexOutlivesInformer(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "a", nil)
	s.put(configMap, "b", nil)
	c := newStarted(t, s)
	ctx := deadline(t)
	byName := func(obj client.Object) []string { return []string{obj.GetName()} }
	must(t, c.IndexField(ctx, object(configMap), "name", byName))
	for _, when := range []string{"at first", "after the informer was removed"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(configMap)
		if err := c.List(ctx, list, client.MatchingFields{"name": "b"}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if len(list.Items) != 1 || list.Items[0].GetName() != "b" {
			t.Errorf("%s: the index finds %v", when, list.Items)
		}
		must(t, c.RemoveInformer(ctx, object(configMap)))
	}
}

func TestTrackingCache_SelectorsReachServer(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "a", nil)
	c := newStarted(t, s, func(o *cache.Options) {
		o.DefaultLabelSelector = labels.SelectorFromSet(labels.Set{"x": "y"})
		o.DefaultNamespaces = map[string]cache.Config{"default": {}, "other": {}}
	})
	must(t, get(deadline(t), c, configMap, "a"))
	s.with(configMap, func(r *resource) {
		if !r.selectors.HasAll("x=y@default", "x=y@other") || r.selectors.Len() != 2 {
			t.Errorf("requests were for %v", r.selectors)
		}
	})
	s.answer(configMap, refuse(http.StatusForbidden, metav1.StatusReasonForbidden))
	eventually(t, "the informers of both namespaces stop", func() bool { return len(c.GetGVKs()) == 0 })
	if err := get(deadline(t), c, configMap, "a"); !apierrors.IsForbidden(err) {
		t.Errorf("reading a forbidden kind: %v", err)
	}
}

func TestTrackingCache_InformersForKind(t *testing.T) {
	s := newServer(t)
	s.mapper.Add(widget, meta.RESTScopeNamespace)
	c := newStarted(t, s)
	for _, gvk := range []schema.GroupVersionKind{configMap, widget} {
		informer, err := c.GetInformerForKind(deadline(t), gvk)
		must(t, err)
		if !informer.HasSynced() {
			t.Errorf("the informer of %s is not synced", gvk)
		}
	}
	s.answer(secret, hang(nil))
	informer, err := c.GetInformerForKind(deadline(t), secret, cache.BlockUntilSynced(false))
	if err != nil || informer.HasSynced() {
		t.Errorf("GetInformerForKind without waiting: %v, synced %v", err, informer.HasSynced())
	}
}

func TestTrackingCache_ConcurrentUse(t *testing.T) {
	s := newServer(t)
	s.put(configMap, "a", nil)
	s.put(secret, "a", nil)
	c := newStarted(t, s)
	ctx := deadline(t)
	q := newQueue(t)
	must(t, c.Source(enqueueName()).Start(ctx, q))
	var wg sync.WaitGroup
	for n := range 8 {
		name := string(rune('a' + n))
		wg.Go(func() {
			for range 30 {
				_ = get(ctx, c, configMap, "a")
				_ = c.Watch(ctx, user(name), kinds(configMap, secret))
				_ = get(ctx, c, secret, "a")
				_ = c.RemoveInformer(ctx, object(secret))
				_, _ = c.GetObjectsPerInformer(ctx)
				_ = c.Free(ctx, user(name))
				_ = c.GetGVKs()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatal("the cache is blocked")
	}
	if err := get(ctx, c, secret, "a"); err != nil {
		t.Error(err)
	}
}

func TestNewTrackingCache_RequiresConfig(t *testing.T) {
	if _, err := managedcache.NewTrackingCache(discard, nil, cache.Options{}); err == nil {
		t.Error("NewTrackingCache without a config succeeds")
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
