// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// content is one state of the objects that a snapshot contains.
type content struct {
	cluster    v1alpha1.ClusterAPI
	configMaps []corev1.ConfigMap
}

// reader serves one state.
type reader struct{ content }

func (r *reader) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.cluster.DeepCopyInto(object.(*v1alpha1.ClusterAPI))
	return nil
}

func (r *reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.ConfigMapList:
		list.Items = slices.Clone(r.configMaps)
	case *metav1.PartialObjectMetadataList:
		for _, configMap := range r.configMaps {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: configMap.ObjectMeta})
		}
	default:
		return fmt.Errorf("unexpected %T", list)
	}
	return nil
}

// history is an API server with all its states.
type history struct {
	states []content
	next   int
}

// number returns a number that was not used before.
func (h *history) number() string {
	h.next++
	return strconv.Itoa(h.next)
}

// now returns a copy of the newest state.
func (h *history) now() content {
	last := h.states[len(h.states)-1]
	return content{*last.cluster.DeepCopy(), slices.Clone(last.configMaps)}
}

func isDeleted(configMap corev1.ConfigMap) bool { return !configMap.DeletionTimestamp.IsZero() }

func (h *history) configMap() corev1.ConfigMap {
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(h.number()), ResourceVersion: h.number()}}
}

// addVersion adds a ConfigMap, and then a version.
func (h *history) addVersion() {
	h.change(func(c *content) { c.configMaps = append(c.configMaps, h.configMap()) })
	h.change(func(c *content) {
		c.cluster.Status.Versions = append(c.cluster.Status.Versions, v1alpha1.Version{Name: h.number()})
	})
}

// recreate replaces the ClusterAPI object by another one with the same versions.
func (h *history) recreate() {
	h.change(func(c *content) { c.cluster.UID, c.cluster.DeletionTimestamp = types.UID(h.number()), nil })
}

// change adds a state.
func (h *history) change(edit func(*content)) {
	state := h.now()
	edit(&state)
	h.states = append(h.states, state)
}

// Guarantee: a snapshot is the state of the API server. The cache may lag by any number of changes, and return to an older
// state.
func TestRead_IsTheStateOfTheAPIServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName, UID: "first"}}
		h := &history{states: []content{{cluster: cluster}}}
		cache, live := &reader{h.now()}, &reader{}
		anyConfigMap := func(edit func(*corev1.ConfigMap)) {
			if n := len(h.now().configMaps); n > 0 {
				h.change(func(c *content) { edit(&c.configMaps[rapid.IntRange(0, n-1).Draw(t, "ConfigMap")]) })
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add a version": func(*rapid.T) { h.addVersion() },
			"recreate":      func(*rapid.T) { h.recreate() },
			"edit":          func(*rapid.T) { anyConfigMap(func(c *corev1.ConfigMap) { c.ResourceVersion = h.number() }) },
			"mark as deleted": func(*rapid.T) {
				anyConfigMap(func(c *corev1.ConfigMap) { c.ResourceVersion, c.DeletionTimestamp = h.number(), new(metav1.Now()) })
			},
			"remove": func(*rapid.T) {
				h.change(func(c *content) { c.configMaps = slices.DeleteFunc(c.configMaps, isDeleted) })
			},
			"uninstall": func(*rapid.T) {
				h.change(func(c *content) { c.cluster.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) })
			},
			"catch up":  func(*rapid.T) { cache.content = h.now() },
			"fall back": func(t *rapid.T) { cache.content = rapid.SampledFrom(h.states).Draw(t, "state of the cache") },
			"": func(t *rapid.T) { // after each change
				live.content = h.now()
				got, err := Read(t.Context(), v1alpha1.OpenShiftNamespaces.Operator, cache, live)
				if err != nil {
					t.Fatal(err)
				}
				if want := (Snapshot{&live.cluster, live.configMaps}); !equality.Semantic.DeepEqual(want, got) {
					t.Fatalf("got %v, the API server has %v", got, want)
				}
			},
		})
	})
}

// errUnavailable is the error of a reader.
var errUnavailable = apierrors.NewServiceUnavailable("down")

// faulty is a reader that fails one kind of request, or calls a function before it.
type faulty struct {
	*reader
	get, list error
	onList    func()
}

func (f faulty) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if f.get != nil {
		return f.get
	}
	return f.reader.Get(ctx, key, object, options...)
}

func (f faulty) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if f.onList != nil {
		f.onList()
	}
	if f.list != nil {
		return f.list
	}
	return f.reader.List(ctx, list, options...)
}

// installed is a cluster with a ClusterAPI object and a ConfigMap.
func installed() content {
	return content{
		v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName, UID: "first"}},
		[]corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1"}}},
	}
}

// Guarantee: unreadable input never removes objects. A failed request is an error, and only a ClusterAPI object that
// does not exist counts as deleted.
func TestRead_FailedRequests(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "clusterapis"}, v1alpha1.ClusterAPIName)
	outdated := &reader{content{cluster: installed().cluster}}
	for name, test := range map[string]struct {
		cache, live  faulty
		failed       bool
		uninstalling bool
	}{
		"no request fails":                {faulty{reader: &reader{installed()}}, faulty{}, false, false},
		"the cache cannot be listed":      {faulty{reader: &reader{}, list: errUnavailable}, faulty{}, true, false},
		"the API server cannot be listed": {faulty{reader: &reader{installed()}}, faulty{list: errUnavailable}, true, false},
		"the object cannot be read":       {faulty{reader: &reader{installed()}}, faulty{get: errUnavailable}, true, false},
		"the object may not be read":      {faulty{reader: &reader{installed()}}, faulty{get: apierrors.NewForbidden(schema.GroupResource{}, "", nil)}, true, false},
		"the object does not exist":       {faulty{reader: &reader{installed()}}, faulty{get: notFound}, false, true},
		"the cache is outdated":           {faulty{reader: outdated}, faulty{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.live.reader = &reader{installed()}
			got, err := Read(t.Context(), v1alpha1.OpenShiftNamespaces.Operator, test.cache, test.live)
			if (err != nil) != test.failed {
				t.Fatalf("error is %v, want one: %t", err, test.failed)
			}
			if err == nil && (got.Uninstalling() != test.uninstalling || len(got.ConfigMaps) != 1) {
				t.Errorf("uninstalling %t, %d ConfigMaps", got.Uninstalling(), len(got.ConfigMaps))
			}
		})
	}
}

// The ClusterAPI object is at least as new as the ConfigMaps, also if it is deleted between the requests.
func TestRead_ClusterAPIAfterConfigMaps(t *testing.T) {
	cache, live := &faulty{reader: &reader{installed()}}, &faulty{reader: &reader{installed()}}
	remove := func() { live.cluster.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }
	cache.onList, live.onList = remove, remove
	got, err := Read(t.Context(), v1alpha1.OpenShiftNamespaces.Operator, cache, live)
	if err != nil || !got.Uninstalling() {
		t.Errorf("uninstalling %t, %v; want the deletion during the lists", got.Uninstalling(), err)
	}
}
