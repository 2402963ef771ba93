// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Registration maintains the ExtensionConfig of the installer. It does not watch it: the API server serves the kind only
// while the core provider is installed. Each change of Cluster API's version and every servingcert.RecheckInterval, it
// reads the ExtensionConfig and applies it if it differs.
type Registration struct {
	// Client writes the ExtensionConfig.
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live client.Reader
	// Issuer has the CA that the ExtensionConfig trusts.
	Issuer servingcert.Issuer
	// Notify writes events about the ClusterAPI object.
	Notify func(context.Context, *v1alpha1.ClusterAPI, ...status.Event)

	// mu excludes that an uninstall withdraws the ExtensionConfig between the decision to apply it and the write.
	mu sync.Mutex
}

// servedLater is the delay before the API server is asked again for a kind whose CRD was created.
const servedLater = 2 * time.Second

// Reconcile applies the ExtensionConfig while a ClusterAPI object exists and the API server serves the kind.
func (r *Registration) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cluster := &v1alpha1.ClusterAPI{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
	switch {
	case apierrors.IsNotFound(err), err == nil && !cluster.DeletionTimestamp.IsZero():
		return reconcile.Result{}, nil // the uninstall withdraws it
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	err = r.apply(ctx, cluster)
	switch {
	case errors.Is(err, errNotServed):
		return reconcile.Result{RequeueAfter: r.nextLook(ctx)}, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		log.FromContext(ctx).Info("The API server rejects the ExtensionConfig of the lifecycle hooks; retrying later", "cause", err.Error(), "interval", servingcert.RecheckInterval.String())
		r.Notify(ctx, cluster, rejected(err))
		return reconcile.Result{RequeueAfter: servingcert.RecheckInterval}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: servingcert.RecheckInterval}, nil
}

// errNotServed is the error of a kind that the API server does not serve.
var errNotServed = errors.New("the API server does not serve ExtensionConfigs")

// nextLook returns the delay until the API server is asked again for the kind; 0 if it has no CRD, because its creation
// causes a reconcile.
func (r *Registration) nextLook(ctx context.Context) time.Duration {
	if r.Client.Get(ctx, client.ObjectKey{Name: CRD}, object.CRDMetadata()) == nil {
		return servedLater
	}
	return 0
}

// rejected returns the event about a rejected ExtensionConfig, with the same key for the same cause.
func rejected(err error) status.Event {
	cause := fnv.New64a()
	_, _ = cause.Write([]byte(err.Error()))
	return status.Event{
		Reason: status.LifecycleHooksRejected, Warning: true, Key: fmt.Sprintf("lifecycle-hooks-rejected-%x", cause.Sum64()),
		Message: err.Error() + "; Cluster API does not call the lifecycle hooks; enable the feature gate RuntimeSDK of the core provider, grant the permissions of manifests/components/lifecycle-hooks, or disable the hooks",
	}
}

// apply writes the ExtensionConfig if it differs.
func (r *Registration) apply(ctx context.Context, cluster *v1alpha1.ClusterAPI) error {
	version, err := r.servedVersion()
	if err != nil {
		return err
	}
	existing := newExtensionConfig(version)
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(existing), existing)
	if client.IgnoreNotFound(err) != nil {
		return wrap("reading", err)
	}
	missing := err != nil
	authority, err := r.Issuer.Renew(ctx)
	if err != nil {
		return err
	}
	want := desired(r.Issuer.Namespace, version, authority.Bundle(), CoreSeries(cluster))
	if !missing && applied(existing, want) {
		return nil
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(FieldOwner), client.ForceOwnership); apierrors.IsNotFound(err) {
		return errNotServed // the CRD was deleted
	} else if err != nil {
		return wrap("applying", err)
	}
	log.FromContext(ctx).Info("Registered the lifecycle hooks", "extensionConfig", Name, "clusterAPI", CoreSeries(cluster).String())
	return nil
}

// Withdraw deletes the ExtensionConfig. A missing permission is not an error: it must not block an uninstall.
func (r *Registration) Withdraw(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, err := r.servedVersion()
	if errors.Is(err, errNotServed) {
		return nil
	}
	if err != nil {
		return err
	}
	existing := newExtensionConfig(version)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(existing), existing); err != nil {
		return wrap("reading", ignoreAbsent(err))
	}
	err = r.Client.Delete(ctx, existing)
	switch {
	case apierrors.IsForbidden(err):
		log.FromContext(ctx).Error(err, "Withdrawing the lifecycle hooks failed; delete the ExtensionConfig", "extensionConfig", Name)
		return nil
	case err == nil:
		log.FromContext(ctx).Info("Withdrew the lifecycle hooks", "extensionConfig", Name)
	}
	return wrap("deleting", ignoreAbsent(err))
}

// servedVersion returns the preferred version of the kind.
func (r *Registration) servedVersion() (string, error) {
	mapping, err := r.Client.RESTMapper().RESTMapping(object.ExtensionConfig)
	if meta.IsNoMatchError(err) {
		return "", errNotServed
	}
	if err != nil {
		return "", wrap("discovering the version of", err)
	}
	return mapping.GroupVersionKind.Version, nil
}

// ignoreAbsent returns nil for the error of an object that does not exist or may not be read.
func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

func wrap(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return errNotServed
	default:
		return fmt.Errorf("%s ExtensionConfig %q: %w", verb, Name, err)
	}
}
