// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// openShift has a controller watch kinds of OpenShift's configuration as soon as
// the cluster has them, which on other clusters is never. The API server is asked
// before each run, and the CRDs of the kinds start one.
type openShift struct {
	manager    manager.Manager
	controller controller.Controller
	// changed is called before the run that an object of these kinds starts.
	changed func()

	mu      sync.Mutex
	missing []client.Object
}

// configKinds are the kinds that the version controller reads, or that Registries read for it.
func configKinds() []client.Object {
	return []client.Object{
		&configv1.Infrastructure{}, &configv1.APIServer{}, &configv1.Proxy{},
		&configv1.Image{}, &configv1.ImageDigestMirrorSet{}, &configv1.ImageTagMirrorSet{}, &operatorv1alpha1.ImageContentSourcePolicy{},
	}
}

// before returns a reconciler that looks for missing kinds before each run.
func (o *openShift) before(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		if err := o.watch(ctx); err != nil {
			return reconcile.Result{}, err
		}
		return next.Reconcile(ctx, request)
	})
}

// watch begins to watch those missing kinds that are served.
func (o *openShift) watch(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var missing []client.Object
	for _, object := range o.missing {
		kind, err := apiutil.GVKForObject(object, o.manager.GetScheme())
		if err != nil {
			return err
		}
		if !served(o.manager.GetRESTMapper(), kind) {
			missing = append(missing, object)
			continue
		}
		log.FromContext(ctx).Info("Watching a kind of OpenShift's configuration", "kind", kind.Kind)
		if err := o.controller.Watch(source.Kind(o.manager.GetCache(), object, after(o.changed))); err != nil {
			return err
		}
	}
	o.missing = missing
	return nil
}

// after has any event start the controller's one run, as always does, after something else is done.
func after(first func()) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		first()
		return theRun
	})
}

// crdMetadata stands for CRDs of which only the metadata is read.
func crdMetadata() client.Object {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	return crd
}

// ofConfig are CRDs of OpenShift's configuration.
var ofConfig = predicate.NewPredicateFuncs(func(object client.Object) bool {
	return strings.HasSuffix(object.GetName(), "."+configv1.GroupName) || strings.HasSuffix(object.GetName(), "."+operatorv1alpha1.GroupName)
})

// keptAndDeleted are CRDs that an uninstall has kept, when they go after all.
var keptAndDeleted = predicate.And[client.Object](
	predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	},
	predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetAnnotations()[v1alpha1.AdoptAnnotation] == v1alpha1.AdoptAlways
	}),
)
