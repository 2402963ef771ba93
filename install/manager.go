// SPDX-License-Identifier: Apache-2.0

// Package install wires both controllers into a manager.
//
//	images.json ─ version ─> ClusterAPI status + revision ConfigMap ─ installer ─> cluster
//
// The version controller decides, the installer controller acts, and they meet
// only in the API.
package install

import (
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/install/installer"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/install/version"
)

// crdKind is the kind of CRDs.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Options say what to install from where.
type Options struct {
	// ImagesJSON is the path of the release's images.json.
	ImagesJSON string
	// Release is the version of the release.
	Release string
	// Platform is the cluster's platform; empty means that the Infrastructure object tells.
	Platform string
	// Fetcher gets the bundles of an image.
	Fetcher extractor.Fetcher
	// Registries are how Fetcher reaches registries, if it does that: they forget what
	// they know when the cluster says something else, and a new try is made at once.
	Registries *Registries
	// Pin is told which images the versions name; nil is not. Their bundles are to be kept at hand.
	Pin func(images ...digest.Digest) error
	// Variables are values for variables in the manifests.
	Variables map[string]string
}

// Scheme returns a scheme with every kind that the controllers read as a Go type.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, configv1.Install, operatorv1alpha1.Install, v1alpha1.AddToScheme)
	return scheme, builder.AddToScheme(scheme)
}

// CacheOptions keep the manager's cache small: of the ConfigMaps of the cluster
// it holds only those in the operator's namespace and the transport ConfigMaps, of
// the admission policies only the one that guards those.
func CacheOptions() cache.Options {
	transport, _ := labels.NewRequirement(configmap.BundleLabel, selection.Exists, nil) // the label is a valid one
	guard := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", version.GuardName)}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			v1alpha1.OperatorNamespace: {},
			v1alpha1.OperandNamespace:  {LabelSelector: labels.NewSelector().Add(*transport)},
		}},
		&admissionv1.ValidatingAdmissionPolicy{}:        guard,
		&admissionv1.ValidatingAdmissionPolicyBinding{}: guard,
	}}
}

// forget has what is known of registries read again.
func (o Options) forget() {
	if o.Registries != nil {
		o.Registries.Forget()
	}
}

// AddToManager adds both controllers to a manager.
func AddToManager(mgr manager.Manager, options Options) error {
	reporter := &status.Reporter{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), ReleaseVersion: options.Release}
	inputs := version.NewTrigger() // fired when an input of the fetcher changes
	if err := addVersion(mgr, options, reporter, inputs); err != nil {
		return fmt.Errorf("adding the version controller: %w", err)
	}
	if options.Registries != nil {
		if err := watchConfigNamespace(mgr, func() { options.forget(); inputs.Fire() }); err != nil {
			return err
		}
	}
	if err := addInstaller(mgr, reporter); err != nil {
		return fmt.Errorf("adding the installer controller: %w", err)
	}
	registerMetrics(mgr.GetClient())
	return nil
}

func addVersion(mgr manager.Manager, options Options, reporter *status.Reporter, inputs *version.Trigger) error {
	images, err := version.WatchFile(options.ImagesJSON)
	if err != nil {
		return err
	}
	reconciler := &version.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Reporter: reporter,
		Fetcher: options.Fetcher, ImagesJSON: options.ImagesJSON, Release: options.Release,
		Platform: options.Platform, Variables: options.Variables, Pin: options.Pin,
	}
	late := &openShift{manager: mgr, missing: configKinds(), changed: options.forget}
	late.controller, err = ctrl.NewControllerManagedBy(mgr).Named("version").
		Watches(&v1alpha1.ClusterAPI{}, always).
		Watches(&corev1.ConfigMap{}, always).
		Watches(&admissionv1.ValidatingAdmissionPolicy{}, always).
		Watches(&admissionv1.ValidatingAdmissionPolicyBinding{}, always).
		Watches(crdMetadata(), always, builder.WithPredicates(ofConfig)).
		WatchesRawSource(images).
		WatchesRawSource(inputs.Source()).
		WithOptions(controllerOptions()).
		Build(late.before(reconciler))
	return err
}

func addInstaller(mgr manager.Manager, reporter *status.Reporter) error {
	engine, err := newEngine(mgr)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("installer").
		Watches(&v1alpha1.ClusterAPI{}, always).
		Watches(&corev1.ConfigMap{}, always).
		Watches(crdMetadata(), always, builder.WithPredicates(keptAndDeleted)).
		WatchesRawSource(engine.Cache.Source(always)).
		WithOptions(controllerOptions()).
		Complete(&installer.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Reporter: reporter, Engine: engine})
}

// newEngine makes boxcutter's engine over a cache of its own that holds only
// what is installed: cluster-scoped objects, and those in the providers' namespace.
func newEngine(mgr manager.Manager) (*installer.Engine, error) {
	tracking, err := managedcache.NewTrackingCache(mgr.GetLogger().WithName("cache"), mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces:    map[string]cache.Config{v1alpha1.OperandNamespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{installer.ManagedByLabel: v1alpha1.Prefix}),
		DefaultTransform:     compact,
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of installed objects: %w", err)
	}
	if err := mgr.Add(tracking); err != nil {
		return nil, err
	}
	whole := compactCache{tracking}
	discovered, err := discovery.NewDiscoveryClientForConfigAndClient(rest.CopyConfig(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	reader := installer.Reader{Reader: whole, Live: mgr.GetAPIReader(), Namespace: v1alpha1.OperandNamespace}
	live := installer.Reader{Reader: mgr.GetAPIReader(), Live: mgr.GetAPIReader(), Namespace: v1alpha1.OperandNamespace}
	revisions, err := boxcutter.NewRevisionEngine(boxcutter.RevisionEngineOptions{
		Scheme: mgr.GetScheme(), FieldOwner: v1alpha1.FieldOwner, SystemPrefix: v1alpha1.Prefix, ManagedBy: v1alpha1.Prefix,
		DiscoveryClient: discovered, RestMapper: mgr.GetRESTMapper(),
		Writer: mgr.GetClient(), Reader: reader, UnfilteredReader: live,
	})
	if err != nil {
		return nil, fmt.Errorf("making the revision engine: %w", err)
	}
	return &installer.Engine{
		Revisions: revisions, Cache: whole, Reader: reader, Live: mgr.GetAPIReader(), Writer: mgr.GetClient(),
		Owners: ownerhandling.NewAnnotation(mgr.GetScheme(), v1alpha1.OwnersAnnotation),
	}, nil
}

// always has any event start the controller's one run: a run looks at everything.
var always = after(func() {})

var theRun = []reconcile.Request{{NamespacedName: client.ObjectKey{Name: v1alpha1.ClusterAPIName}}}

// controllerOptions: one worker, and at most half a minute between tries, so that
// what passes by itself is noticed soon. What is watched is waited for all day: an
// API server that is slow, or a right that is missing, must not end the program.
func controllerOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 1,
		CacheSyncTimeout:        24 * time.Hour,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 30*time.Second),
	}
}

// served says whether the API server has a kind.
func served(mapper meta.RESTMapper, kind schema.GroupVersionKind) bool {
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}
