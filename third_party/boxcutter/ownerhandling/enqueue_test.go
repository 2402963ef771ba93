// SPDX-License-Identifier: Apache-2.0

package ownerhandling

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type enqueuer interface {
	strategy
	EnqueueRequestForOwner(ownerType client.Object, mapper meta.RESTMapper, isController bool) handler.EventHandler
}

// events calls the handler once for each kind of event about the objects.
func events(ctx context.Context, h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request], before, after client.Object) {
	h.Create(ctx, event.CreateEvent{Object: after}, q)
	h.Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	h.Delete(ctx, event.DeleteEvent{Object: after}, q)
	h.Generic(ctx, event.GenericEvent{Object: after}, q)
}

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// drain returns all requests of the queue.
func drain(q workqueue.TypedRateLimitingInterface[reconcile.Request]) map[string]bool {
	got := map[string]bool{}
	for q.Len() > 0 {
		request, _ := q.Get()
		got[request.String()] = true
		q.Done(request)
	}
	return got
}

func TestEnqueueRequestForOwner_MapsEvents(t *testing.T) {
	scheme := testScheme(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)

	for kind, s := range map[string]enqueuer{"native": NewNative(scheme), "annotation": NewAnnotation(scheme, testKey)} {
		before, after := configMap("obj"), configMap("obj")
		must(t, s.SetControllerReference(configMap("before"), before))
		must(t, s.SetControllerReference(configMap("controller"), after))
		must(t, s.SetOwnerReference(configMap("owner"), after))
		must(t, s.SetOwnerReference(&corev1.Secret{ObjectMeta: configMap("other-kind").ObjectMeta}, after))

		type send func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request])
		for name, test := range map[string]struct {
			send         send
			isController bool
			want         map[string]bool
		}{
			"create, all owners": {
				send: func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					h.Create(t.Context(), event.CreateEvent{Object: after}, q)
				},
				want: map[string]bool{"ns/controller": true, "ns/owner": true},
			},
			"create, controllers only": {
				send: func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					h.Create(t.Context(), event.CreateEvent{Object: after}, q)
				},
				isController: true,
				want:         map[string]bool{"ns/controller": true},
			},
			"update, old and new": {
				send: func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					h.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
				},
				isController: true,
				want:         map[string]bool{"ns/before": true, "ns/controller": true},
			},
			"delete": {
				send: func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					h.Delete(t.Context(), event.DeleteEvent{Object: before}, q)
				},
				want: map[string]bool{"ns/before": true},
			},
			"generic": {
				send: func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					h.Generic(t.Context(), event.GenericEvent{Object: before}, q)
				},
				want: map[string]bool{"ns/before": true},
			},
			"an object without owners": {
				send: func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					events(t.Context(), h, q, configMap("obj"), configMap("obj"))
				},
				want: map[string]bool{},
			},
		} {
			t.Run(kind+": "+name, func(t *testing.T) {
				q := newQueue(t)
				test.send(s.EnqueueRequestForOwner(&corev1.ConfigMap{}, mapper, test.isController), q)
				equal(t, "requests", test.want, drain(q))
			})
		}
	}
}

func TestEnqueueRequestForOwner_AnnotationNamespace(t *testing.T) {
	s := NewAnnotation(testScheme(t), testKey)
	obj, owner := configMap("obj"), configMap("owner")
	owner.Namespace = "elsewhere"
	must(t, s.SetControllerReference(owner, obj))
	q := newQueue(t)
	s.EnqueueRequestForOwner(widgetOf("v1", "ConfigMap"), nil, true).Create(t.Context(), event.CreateEvent{Object: obj}, q)
	equal(t, "requests", map[string]bool{"elsewhere/owner": true}, drain(q))
}

// widgetOf is an owner type that sets its own kind.
func widgetOf(apiVersion, kind string) client.Object {
	w := widget("v1")
	w.APIVersion, w.Kind = apiVersion, kind
	return w
}

func TestEnqueueRequestForOwner_InvalidTypeLogs(t *testing.T) {
	scheme := testScheme(t)
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Twin"}, &corev1.Secret{})
	annotation := NewAnnotation(scheme, testKey)
	obj := configMap("obj")
	must(t, annotation.SetControllerReference(configMap("owner"), obj))

	for name, h := range map[string]handler.EventHandler{
		"annotation, unknown type":                    annotation.EnqueueRequestForOwner(&unregistered{}, nil, false),
		"annotation, ambiguous type":                  annotation.EnqueueRequestForOwner(&corev1.Secret{}, nil, false),
		"annotation, kind not set":                    annotation.EnqueueRequestForOwner(widgetOf("", ""), nil, false),
		"native, unknown type":                        NewNative(scheme).EnqueueRequestForOwner(&unregistered{}, nil, false),
		"native, ambiguous type":                      NewNative(scheme).EnqueueRequestForOwner(&corev1.Secret{}, nil, false),
		"annotation, created without the constructor": &AnnotationEnqueueRequestForOwner{OwnerType: &corev1.ConfigMap{}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			q := newQueue(t)
			h.Create(logr.NewContext(t.Context(), logger), event.CreateEvent{Object: obj}, q)
			if got := drain(q); len(got) != 0 {
				t.Errorf("got requests %v, want none", got)
			}
			if len(lines) != 1 {
				t.Errorf("logged %q, want one line", lines)
			}
		})
	}
}
