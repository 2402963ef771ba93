// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/lifecyclehook"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/object"
)

// LifecycleHooks are the settings of the Runtime Extension that delays Clusters during a rollout.
type LifecycleHooks struct {
	// Address is the address to listen on.
	Address string
	// Limit is how long a version delays Clusters; 0 means lifecyclehook.DefaultLimit.
	Limit time.Duration
	// Profile is the TLS security profile of the cluster.
	Profile *tlsprofile.Profile
}

// addLifecycleHooks adds the server of the hooks and the controller of its ExtensionConfig. It returns the function that
// withdraws the ExtensionConfig before an uninstall; nil if the hooks are disabled. Then the ExtensionConfig of an earlier
// process is withdrawn.
func addLifecycleHooks(mgr manager.Manager, hooks *LifecycleHooks, reporter *status.Reporter, namespace string) (func(context.Context) error, error) {
	issuer := servingcert.Issuer{Namespace: namespace, Reader: mgr.GetAPIReader(), Writer: mgr.GetClient()}
	registration := &lifecyclehook.Registration{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Issuer: issuer, Notify: reporter.Emit}
	if hooks == nil {
		return nil, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			withdrawUntilDone(ctx, registration)
			return nil
		}))
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("lifecycle-hooks").
		Watches(&v1alpha1.ClusterAPI{}, always, builder.WithPredicates(registrationChanged)).
		Watches(object.CRDMetadata(), always, builder.WithPredicates(extensionConfigCRD)).
		WithOptions(controllerOptions(newRetries())).
		Complete(registration)
	if err != nil {
		return nil, err
	}
	certificate := &lifecyclehook.Certificate{Authority: issuer.Authority, Names: servingcert.Names(namespace, lifecyclehook.Name)}
	handler := &lifecyclehook.Handler{
		State: func(ctx context.Context) (lifecyclehook.State, error) {
			return lifecyclehook.Read(ctx, namespace, mgr.GetClient())
		},
		Limit:  cmp.Or(hooks.Limit, lifecyclehook.DefaultLimit),
		Notify: reporter.Emit,
	}
	server := &lifecyclehook.Server{Address: hooks.Address, Handler: handler.Routes(), Certificate: certificate.Get, Profile: hooks.Profile}
	return registration.Withdraw, mgr.Add(server)
}

// withdrawRetry is the time between attempts to withdraw the ExtensionConfig of disabled hooks.
const withdrawRetry = 10 * time.Second

// withdrawUntilDone withdraws the ExtensionConfig once, with retries.
func withdrawUntilDone(ctx context.Context, registration *lifecyclehook.Registration) {
	_ = wait.PollUntilContextCancel(ctx, withdrawRetry, true, func(ctx context.Context) (bool, error) {
		err := registration.Withdraw(ctx)
		if err != nil {
			log.FromContext(ctx).Info("Withdrawing the lifecycle hooks failed; retrying", "cause", err.Error())
		}
		return err == nil, nil
	})
}

// registrationChanged selects changes of the ClusterAPI object that change the ExtensionConfig.
var registrationChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isCluster := e.ObjectOld.(*v1alpha1.ClusterAPI)
		after, _ := e.ObjectNew.(*v1alpha1.ClusterAPI)
		return isCluster && lifecyclehook.CoreSeries(before) != lifecyclehook.CoreSeries(after)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// extensionConfigCRD selects the CRD of ExtensionConfigs.
var extensionConfigCRD = predicate.NewPredicateFuncs(func(crd client.Object) bool { return crd.GetName() == lifecyclehook.CRD })
