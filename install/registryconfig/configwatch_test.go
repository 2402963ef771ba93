// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// configCluster is a manager whose API server serves some kinds.
type configCluster struct {
	manager.Manager
	scheme     *runtime.Scheme
	client     client.Client
	discovery  discovery
	controller watchCounter
}

func (c *configCluster) GetScheme() *runtime.Scheme     { return c.scheme }
func (c *configCluster) GetClient() client.Client       { return c.client }
func (c *configCluster) GetCache() cache.Cache          { return nil }
func (c *configCluster) GetRESTMapper() meta.RESTMapper { return &c.discovery }

// discovery records the kinds that it is asked for.
type discovery struct {
	meta.RESTMapper
	served, asked []string
}

func (d *discovery) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	d.asked = append(d.asked, kind.Kind)
	if slices.Contains(d.served, kind.Kind) {
		return &meta.RESTMapping{}, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind}
}

// watchCounter is a controller that counts the watches that it is asked for, and refuses one of them.
type watchCounter struct {
	controller.Controller
	watches int
	refuse  int // the number of the watch to refuse; 0 is none
}

var errRefused = errors.New("refused")

func (w *watchCounter) Watch(source.TypedSource[reconcile.Request]) error {
	w.watches++
	if w.watches == w.refuse {
		return errRefused
	}
	return nil
}

func newConfigCluster(t *testing.T) *configCluster {
	t.Helper()
	c := &configCluster{scheme: runtime.NewScheme()}
	if err := errors.Join(configv1.Install(c.scheme), operatorv1alpha1.Install(c.scheme), apiextensionsv1.AddToScheme(c.scheme)); err != nil {
		t.Fatal(err)
	}
	c.client = fake.NewClientBuilder().WithScheme(c.scheme).Build()
	return c
}

// define creates the CRD of a kind.
func (c *configCluster) define(t *testing.T, plural string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + configv1.GroupName}}
	if err := c.client.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
}

func TestConfigWatch_KindsAppearLater(t *testing.T) {
	c := newConfigCluster(t)
	watch := &ConfigWatch{Manager: c, Controller: &c.controller, Kinds: []client.Object{&configv1.Proxy{}, &configv1.Image{}}}
	var answer reconcile.Result
	var failure error
	reconciler := watch.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return answer, failure }))
	step := func(what string, wantWatches int, wantQuestions []string, wantAfter time.Duration) {
		t.Helper()
		c.discovery.asked = nil
		result, err := reconciler.Reconcile(t.Context(), reconcile.Request{})
		if !errors.Is(err, failure) || c.controller.watches != wantWatches || result.RequeueAfter != wantAfter || !slices.Equal(c.discovery.asked, wantQuestions) {
			t.Errorf("%s: %d watches, questions %v, requeue after %s, error %v; want %d, %v, %s, %v",
				what, c.controller.watches, c.discovery.asked, result.RequeueAfter, err, wantWatches, wantQuestions, wantAfter, failure)
		}
	}
	c.discovery.served = []string{"Image"}
	c.define(t, "images")
	step("at the start, discovery is asked for each kind with a CRD", 1, []string{"Image"}, 0)
	step("a kind without a CRD is not asked for", 1, nil, 0)
	c.define(t, "proxies")
	step("a kind that has a CRD is served soon", 1, []string{"Proxy"}, servedLater)
	answer.RequeueAfter = time.Second
	step("the reconciler wants to be called earlier", 1, []string{"Proxy"}, time.Second)
	answer.RequeueAfter = time.Hour
	step("the reconciler wants to be called later", 1, []string{"Proxy"}, servedLater)
	answer.RequeueAfter, failure = 0, errors.New("failed")
	step("an error causes a retry by itself", 1, []string{"Proxy"}, 0)
	failure = nil
	c.discovery.served = []string{"Image", "Proxy"}
	step("the kind is served", 2, []string{"Proxy"}, 0)
	step("every kind is watched once", 2, nil, 0)
}

// If a watch cannot be added, the reconciler is not called: it would wait for events in vain.
func TestConfigWatch_Refused(t *testing.T) {
	c := newConfigCluster(t)
	c.define(t, "proxies")
	c.discovery.served, c.controller.refuse = []string{"Proxy"}, 1
	watch := &ConfigWatch{Manager: c, Controller: &c.controller, Kinds: []client.Object{&configv1.Proxy{}}}
	called := 0
	reconciler := watch.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		called++
		return reconcile.Result{}, nil
	}))
	if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, errRefused) || called != 0 {
		t.Errorf("error %v, %d calls", err, called)
	}
	if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{}); err != nil || called != 1 || c.controller.watches != 2 {
		t.Errorf("error %v, %d calls, %d watches", err, called, c.controller.watches)
	}
}

// After a refusal, only the watches that are missing are added.
func TestConfigWatch_RefusedSecondKind(t *testing.T) {
	c := newConfigCluster(t)
	for _, plural := range []string{"proxies", "images", "apiservers"} {
		c.define(t, plural)
	}
	c.discovery.served = []string{"Image", "APIServer"}
	c.controller.refuse = 2
	watch := &ConfigWatch{Manager: c, Controller: &c.controller, Kinds: []client.Object{&configv1.Proxy{}, &configv1.Image{}, &configv1.APIServer{}}}
	reconciler := watch.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
	if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, errRefused) {
		t.Errorf("error %v, want %v", err, errRefused)
	}
	c.discovery.served = append(c.discovery.served, "Proxy")
	if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{}); err != nil || c.controller.watches != 4 {
		t.Errorf("error %v, %d calls of Watch; want one for Image, two for APIServer and one for Proxy", err, c.controller.watches)
	}
}

// kindsRead are the kinds of OpenShift's API that a reader was asked for.
type kindsRead struct{ types []string }

func (k *kindsRead) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return k.missing(object)
}

func (k *kindsRead) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return k.missing(list)
}

func (k *kindsRead) missing(object any) error {
	k.types = append(k.types, reflect.TypeOf(object).Elem().Name())
	return &meta.NoKindMatchError{}
}

// A kind that is read but not watched would only take effect at the next event of another kind.
func TestConfigKinds_AreAllThatIsRead(t *testing.T) {
	read := &kindsRead{}
	if err := (&Registries{Reader: read}).readCluster(t.Context(), &inputs{}); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Policies{Reader: read}).Policy(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"APIServer", "FeatureGate", "Infrastructure"} // of the version controller
	for _, kind := range read.types {
		if kind != "Secret" { // WatchConfigNamespace
			want = append(want, strings.TrimSuffix(kind, "List"))
		}
	}
	var got []string
	for _, kind := range ConfigKinds() {
		got = append(got, reflect.TypeOf(kind).Elem().Name())
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("watched kinds (-want +got):\n%s", diff)
	}
}

func TestConfigCRDs(t *testing.T) {
	for name, want := range map[string]bool{
		"proxies.config.openshift.io": true, "imagecontentsourcepolicies.operator.openshift.io": true,
		"machines.cluster.x-k8s.io": false, "exampleconfig.openshift.io": false,
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if got := ConfigCRDs.Create(event.CreateEvent{Object: crd}); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestRegistries_InvalidateBeforeReconcile(t *testing.T) {
	registries := &Registries{}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	want := reconcile.Request{NamespacedName: client.ObjectKey{Name: "cluster"}}
	handler := registries.EventHandler(nil, want)
	set := &configv1.ImageDigestMirrorSet{}
	for name, happen := range map[string]func(){
		"created": func() { handler.Create(t.Context(), event.CreateEvent{Object: set}, queue) },
		"changed": func() { handler.Update(t.Context(), event.UpdateEvent{ObjectOld: set, ObjectNew: set}, queue) },
		"deleted": func() { handler.Delete(t.Context(), event.DeleteEvent{Object: set}, queue) },
	} {
		registries.at = time.Now()
		happen()
		request, _ := queue.Get()
		queue.Done(request)
		if request != want || !registries.at.IsZero() {
			t.Errorf("%s: request %v is enqueued while the configuration read at %v is still valid", name, request, registries.at)
		}
	}
}
