// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/internal/object"
)

// ConfigWatch adds watches for the kinds of OpenShift's configuration API to a
// controller as soon as the API server serves them; some clusters never serve them.
// It checks before each reconcile; ConfigCRDs selects the CRDs whose creation must
// cause one.
type ConfigWatch struct {
	// Manager provides the cache and the REST mapper.
	Manager manager.Manager
	// Controller is the controller that gets the watches.
	Controller controller.Controller
	// Kinds are the kinds that are not watched yet.
	Kinds []client.Object
	// Handler handles the events of these kinds.
	Handler handler.EventHandler

	mu sync.Mutex
}

// ConfigKinds are the kinds that the version controller, Registries and Policies read.
func ConfigKinds() []client.Object {
	return []client.Object{
		&configv1.Infrastructure{}, &configv1.FeatureGate{}, &configv1.APIServer{}, &configv1.Proxy{},
		&configv1.Image{}, &configv1.ImageDigestMirrorSet{}, &configv1.ImageTagMirrorSet{}, &operatorv1alpha1.ImageContentSourcePolicy{},
		&configv1.ClusterImagePolicy{}, &configv1.ImagePolicy{},
	}
}

// servedLater is the delay before the API server is asked again for a kind whose
// CRD exists but that discovery does not list yet.
const servedLater = 2 * time.Second

// Reconciler returns a reconciler that adds missing watches and then calls next.
func (w *ConfigWatch) Reconciler(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		soon, err := w.watch(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		result, err := next.Reconcile(ctx, request)
		if soon && err == nil && (result.RequeueAfter == 0 || result.RequeueAfter > servedLater) {
			result.RequeueAfter = servedLater
		}
		return result, err
	})
}

// watch adds a watch for each missing kind that the API server serves. It reports whether a kind with a CRD is not
// served yet. It asks the API server only for kinds with a CRD: each question about a missing kind is a request.
func (w *ConfigWatch) watch(ctx context.Context) (soon bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Kinds = slices.DeleteFunc(w.Kinds, func(wanted client.Object) bool {
		kind, unknown := apiutil.GVKForObject(wanted, w.Manager.GetScheme())
		if err = cmp.Or(err, unknown); err != nil || !w.defined(ctx, kind) {
			return false
		}
		if _, notServed := w.Manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); notServed != nil {
			soon = true
			return false
		}
		log.FromContext(ctx).Info("Watching configuration kind", "kind", kind.Kind)
		err = w.Controller.Watch(source.Kind(w.Manager.GetCache(), wanted, w.Handler))
		return err == nil
	})
	return soon, err
}

// Complete reports whether all kinds are watched.
func (w *ConfigWatch) Complete() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.Kinds) == 0
}

// defined reports whether the CRD of a kind exists.
func (w *ConfigWatch) defined(ctx context.Context, kind schema.GroupVersionKind) bool {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return w.Manager.GetClient().Get(ctx, client.ObjectKey{Name: plural.GroupResource().String()}, object.CRDMetadata()) == nil
}

// ConfigCRDs selects the CRDs of OpenShift's configuration API.
var ConfigCRDs = predicate.NewPredicateFuncs(func(crd client.Object) bool {
	return strings.HasSuffix(crd.GetName(), "."+configv1.GroupName) || strings.HasSuffix(crd.GetName(), "."+operatorv1alpha1.GroupName)
})

// Watch calls changed for every change of the pull secret and of the ConfigMaps in
// its namespace, because some contain certificates. It watches only their metadata
// and does not wait for the watch to start: a cluster may lack these objects, or
// the permission to watch them, and they are read anyway when an image is pulled.
func (r *Registries) Watch(mgr manager.Manager, changed func()) error {
	namespace, byName := configNamespace, map[client.Object]cache.ByObject{&corev1.Secret{}: named(pullSecret)}
	if r.Namespace != "" {
		namespace, byName = r.Namespace, map[client.Object]cache.ByObject{&corev1.Secret{}: named(PullSecretName), &corev1.ConfigMap{}: named(ConfigMapName)}
	}
	configCache, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, ByObject: byName,
	})
	if err != nil {
		return fmt.Errorf("creating the cache of namespace %s: %w", namespace, err)
	}
	events := toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() }}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for _, kind := range []string{"Secret", "ConfigMap"} {
			if err := WatchMetadata(ctx, configCache, kind, events); err != nil {
				return fmt.Errorf("watching the %ss of namespace %s: %w", kind, namespace, err)
			}
		}
		return configCache.Start(ctx)
	}))
}

// named limits a cache to the object of a name.
func named(name string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
}

// WatchMetadata handles the events of a core kind in a cache of metadata. It does not wait for the watch to start.
func WatchMetadata(ctx context.Context, in cache.Cache, kind string, events toolscache.ResourceEventHandler) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	informer, err := in.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(events)
	return err
}
