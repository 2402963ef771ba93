// SPDX-License-Identifier: Apache-2.0

// Package install wires both controllers into a manager.
//
//	images.json ─ version ─> ClusterAPI status + revision ConfigMap ─ installer ─> cluster
//
// The version controller decides on a version and the installer controller installs
// it. They communicate only through the API.
package install

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/install/installer"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/registryconfig"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/replacing"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/install/version"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Options configure both controllers.
type Options struct {
	// ImagesJSON is the path of the release's images.json.
	ImagesJSON string
	// Release is the version of the release.
	Release string
	// Identity is the identity of the process in the Lease; empty without leader election.
	Identity string
	// LateWrites returns the time until a write of a former leader can arrive; zero if there is none, as nil does.
	LateWrites func() time.Time
	// Platforms are the cluster's platforms; empty reads the platform from the Infrastructure object.
	Platforms operand.Platforms
	// Fetcher returns the bundles of an image.
	Fetcher extractor.Fetcher
	// Registries is the registry configuration of Fetcher; nil if it has none. It
	// is invalidated when the cluster's configuration changes.
	Registries *registryconfig.Registries
	// Policies is the signature policy of Fetcher; nil if it has none. A change
	// causes a reconcile.
	Policies *registryconfig.Policies
	// Verdict returns the verdict of the signature policies on an image that Fetcher has read; nil if it checks no signatures.
	Verdict func(ctx context.Context, image string) v1alpha1.SignatureVerdict
	// Pin is called with the images of all versions, so that a cache keeps their bundles; nil disables it.
	Pin func(images ...digest.Digest) error
	// Variables are values for variables in the manifests.
	Variables map[string]string
	// Mask replaces the values of Secrets in the status and in events; nil replaces none. The log of the process should use it too.
	Mask *masking.Mask
	// PolicyDelay is the time until all API servers enforce an admission policy that
	// one of them enforces; 0 means two seconds.
	PolicyDelay time.Duration
	// ProgressTimeout is how long a rollout may make no progress before the
	// operator is Degraded; 0 means 30 minutes.
	ProgressTimeout time.Duration
	// CreateClusterAPI creates the ClusterAPI object at the first start in the cluster, with the settings in the file clusterapi.yaml next to
	// images.json if there is one.
	CreateClusterAPI bool
	// Namespaces are the namespaces of the installation.
	Namespaces v1alpha1.Namespaces
	// IgnoreOfficialAPI disables the use of OpenShift's own ClusterAPI object (operator.openshift.io).
	IgnoreOfficialAPI bool
}

// Scheme returns a scheme with every kind that the controllers read as a Go type.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, configv1.Install, operatorv1alpha1.Install, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme)
	return scheme, builder.AddToScheme(scheme)
}

// CacheOptions keep the manager's cache small. It holds only the ConfigMaps and Secrets in
// the operator's namespace, the transport ConfigMaps, and the admission policy that
// protects the latter.
func CacheOptions(namespaces v1alpha1.Namespaces) cache.Options {
	transport, _ := labels.NewRequirement(configmap.BundleLabel, selection.Exists, nil) // the label is valid
	guard := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", version.TransportPolicyName)}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			namespaces.Operator: {},
			namespaces.Operand:  {LabelSelector: labels.NewSelector().Add(*transport)},
		}},
		&corev1.Secret{}:                                {Namespaces: map[string]cache.Config{namespaces.Operator: {}}},
		&admissionv1.ValidatingAdmissionPolicy{}:        guard,
		&admissionv1.ValidatingAdmissionPolicyBinding{}: guard,
	}}
}

// AddToManager adds both controllers to a manager.
func AddToManager(mgr manager.Manager, options Options) error {
	inputs := version.NewTrigger() // fired when an input of the fetcher changes
	var official *officialapi.Source
	if !options.IgnoreOfficialAPI {
		official = &officialapi.Source{Reader: mgr.GetClient()}
		if err := addOfficialStatus(mgr, official, options.Namespaces.Operator); err != nil {
			return fmt.Errorf("adding the controller of OpenShift's own ClusterAPI: %w", err)
		}
	}
	reporter := func(controller status.Controller) *status.Reporter {
		return &status.Reporter{Controller: controller, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Predecessor: official.Predecessor, Mask: options.Mask}
	}
	forInstaller := reporter(status.Installer)
	if err := addOperatorStatus(mgr); err != nil {
		return fmt.Errorf("adding the controller of the ClusterOperator: %w", err)
	}
	if err := addVersion(mgr, options, reporter(status.Version), inputs, official); err != nil {
		return fmt.Errorf("adding the version controller: %w", err)
	}
	if options.Registries != nil {
		if err := options.Registries.Watch(mgr, func() { options.Registries.Invalidate(); inputs.Fire() }); err != nil {
			return err
		}
	}
	files := &version.Poll{State: version.ReleaseState(options.ImagesJSON), Changed: inputs.Fire}
	if err := mgr.Add(files); err != nil {
		return err
	}
	if policies := options.Policies; policies != nil {
		if err := mgr.Add(&version.Poll{State: policies.State, Changed: func() { policies.Invalidate(); inputs.Fire() }}); err != nil {
			return err
		}
	}
	if err := addInstaller(mgr, options, forInstaller, official); err != nil {
		return fmt.Errorf("adding the installer controller: %w", err)
	}
	registerMetrics(mgr.GetClient())
	if options.CreateClusterAPI {
		settings := filepath.Join(filepath.Dir(options.ImagesJSON), settingsFile)
		return mgr.Add(&creator{namespace: options.Namespaces.Operator, client: mgr.GetClient(), live: mgr.GetAPIReader(), settings: settings})
	}
	return nil
}

func addVersion(mgr manager.Manager, options Options, reporter *status.Reporter, inputs version.Trigger, official *officialapi.Source) (err error) {
	reconciler := &version.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Reporter: reporter, Identity: options.Identity,
		Fetcher: options.Fetcher, ImagesJSON: options.ImagesJSON, Release: options.Release,
		Platforms: options.Platforms, Variables: options.Variables, Namespaces: options.Namespaces, Pin: options.Pin, Verdict: options.Verdict, Official: official, Mask: options.Mask,
	}
	officialWatch := &registryconfig.ConfigWatch{Manager: mgr}
	configWatch := &registryconfig.ConfigWatch{Manager: mgr, Kinds: registryconfig.ConfigKinds(), Handler: options.Registries.EventHandler(options.Policies, clusterAPIRequest)}
	configWatch.Controller, err = ctrl.NewControllerManagedBy(mgr).Named("version").
		Watches(&v1alpha1.ClusterAPI{}, always, builder.WithPredicates(version.BeyondProgress)).
		Watches(&corev1.ConfigMap{}, always, builder.WithPredicates(exceptHistory)).
		Watches(&corev1.Secret{}, always).
		Watches(&admissionv1.ValidatingAdmissionPolicy{}, always).
		Watches(&admissionv1.ValidatingAdmissionPolicyBinding{}, always).
		Watches(object.CRDMetadata(), always, builder.WithPredicates(registryconfig.ConfigCRDs)).
		WatchesRawSource(inputs.Source()).
		WithOptions(controllerOptions(newRetries())).
		Build(configWatch.Reconciler(watchOfficial(officialWatch, official, reconciler)))
	officialWatch.Controller = configWatch.Controller
	return err
}

// watchOfficial makes a controller watch OpenShift's own ClusterAPI object as soon
// as the API server serves its kind, unless the object is ignored.
func watchOfficial(watch *registryconfig.ConfigWatch, official *officialapi.Source, reconciler reconcile.Reconciler) reconcile.Reconciler {
	if official == nil {
		return reconciler
	}
	watch.Kinds, watch.Handler = []client.Object{&operatorv1alpha1.ClusterAPI{}}, always
	return watch.Reconciler(reconciler)
}

// addOfficialStatus adds the controller that updates the status of OpenShift's own ClusterAPI object.
func addOfficialStatus(mgr manager.Manager, official *officialapi.Source, namespace string) (err error) {
	watch := &registryconfig.ConfigWatch{Manager: mgr}
	reconciler := &officialapi.Reconciler{Namespace: namespace, Client: mgr.GetClient(), Source: official}
	watch.Controller, err = ctrl.NewControllerManagedBy(mgr).Named("official-clusterapi").
		Watches(&v1alpha1.ClusterAPI{}, always).
		Watches(object.CRDMetadata(), always, builder.WithPredicates(registryconfig.ConfigCRDs)).
		WithOptions(controllerOptions(newRetries())).
		Build(watchOfficial(watch, official, reconciler))
	return err
}

// addOperatorStatus adds the controller that updates the ClusterOperator, as soon as the API server serves its kind.
func addOperatorStatus(mgr manager.Manager) (err error) {
	watch := &registryconfig.ConfigWatch{Manager: mgr, Kinds: []client.Object{&configv1.ClusterOperator{}}}
	watch.Handler = handler.EnqueueRequestsFromMapFunc(func(_ context.Context, operator client.Object) []reconcile.Request {
		if operator.GetName() != v1alpha1.ClusterOperatorName {
			return nil
		}
		return []reconcile.Request{clusterAPIRequest}
	})
	reconciler := &status.OperatorReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	watch.Controller, err = ctrl.NewControllerManagedBy(mgr).Named("clusteroperator").
		Watches(&v1alpha1.ClusterAPI{}, always).
		Watches(object.CRDMetadata(), always, builder.WithPredicates(registryconfig.ConfigCRDs)).
		WithOptions(controllerOptions(newRetries())).
		Build(watch.Reconciler(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			if !watch.Complete() { // the API does not exist
				return reconcile.Result{}, nil
			}
			return reconciler.Reconcile(ctx, request)
		})))
	return err
}

func addInstaller(mgr manager.Manager, options Options, reporter *status.Reporter, official *officialapi.Source) error {
	writer, live := mgr.GetClient(), mgr.GetAPIReader()
	replacer := &replacing.Writer{Writer: writer, Live: live}
	providers := options.Namespaces.Providers()
	objects, err := newEngine(mgr, options.Namespaces, replacer)
	if err != nil {
		return err
	}
	permissions := installer.Permissions{Reviews: writer, Mapper: mgr.GetRESTMapper(), Namespaces: options.Namespaces}
	certificates := version.NewTrigger()
	issued, err := watchCertificates(mgr, providers, objects.Changes, certificates)
	if err != nil {
		return err
	}
	retries := newRetries()
	instances := &instance.Access{Namespace: options.Namespaces.Operator, Live: live, Writer: writer, LateWrites: options.LateWrites}
	reconciler := &installer.Reconciler{
		Client: writer, Live: live, Reporter: reporter, Official: official, Mask: options.Mask, Namespaces: options.Namespaces,
		Applier: installer.Applier{
			Engine: objects, Adopter: adoption.Adopter{Writer: writer}, Checker: compatibility.Checker{Metadata: writer, Live: live},
			Certificates: servingcert.Issuer{Namespace: options.Namespaces.Operator, Reader: live, Writer: writer, Issued: issued}, Permissions: permissions,
			Guards: guard.Guards{Cache: objects.Reader, Live: live, Writer: replacer, Status: writer, Instances: instances, Delay: options.PolicyDelay},
		},
		Replacer:   replacer,
		Remover:    removal.Remover{Engine: objects, Live: live, Writer: writer, Instances: instances, PolicyDelay: options.PolicyDelay},
		LateWrites: options.LateWrites, ProgressTimeout: options.ProgressTimeout, Progressed: func() { retries.Forget(clusterAPIRequest) },
	}
	return ctrl.NewControllerManagedBy(mgr).Named("installer").
		Watches(&v1alpha1.ClusterAPI{}, always, builder.WithPredicates(predicate.Or(version.BeyondProgress, byOthers))).
		Watches(&corev1.ConfigMap{}, always, builder.WithPredicates(exceptHistory)).
		Watches(&corev1.Secret{}, always, builder.WithPredicates(ofVersion)).
		Watches(object.CRDMetadata(), always, builder.WithPredicates(predicate.Or[client.Object](retainedCRD, checkedCRD(mgr.GetClient())))).
		WatchesRawSource(objects.Source(clusterAPIRequest)).
		WatchesRawSource(certificates.Source()).
		WithOptions(controllerOptions(retries)).
		Complete(reconciler)
}

// watchCertificates returns a function that begins a watch of the Secrets of certificates: a changed or deleted Secret counts as an event of its
// Service, and causes a reconcile. Without the permission to watch them, changes are found every servingcert.RecheckInterval.
func watchCertificates(mgr manager.Manager, namespaces []string, seen *engine.Changes, trigger version.Trigger) (begin func(), err error) {
	issued, _ := labels.NewRequirement(v1alpha1.ServingCertLabel, selection.Exists, nil) // the label is valid
	options := cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces: map[string]cache.Config{}, DefaultLabelSelector: labels.NewSelector().Add(*issued),
	}
	for _, namespace := range namespaces {
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	secrets, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("creating the cache of certificates: %w", err)
	}
	changed := func(object any) {
		if deleted, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
			object = deleted.Obj
		}
		if secret, ok := object.(client.Object); ok {
			seen.Observe(servingcert.ServiceOf(secret))
			trigger.Fire()
		}
	}
	events := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed}
	return sync.OnceFunc(func() {
		if err := registryconfig.WatchMetadata(context.Background(), secrets, "Secret", events); err != nil {
			mgr.GetLogger().Error(err, "Watching the Secrets of certificates failed: they are checked periodically")
		}
	}), mgr.Add(secrets)
}

// newEngine returns an engine with a writer of installed objects. The manager runs its cache.
func newEngine(mgr manager.Manager, namespaces v1alpha1.Namespaces, writer client.Writer) (*engine.Engine, error) {
	out, err := engine.New(engine.Connection{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Config: mgr.GetConfig(), HTTPClient: mgr.GetHTTPClient(),
		Live: mgr.GetAPIReader(), Writer: writer, Namespace: namespaces.Operator, Namespaces: namespaces.Providers(), Log: mgr.GetLogger().WithName("cache"),
	})
	if err != nil {
		return nil, err
	}
	return out, mgr.Add(out)
}

// Each controller has a single request, because one reconcile handles everything.
var (
	clusterAPIRequest = reconcile.Request{NamespacedName: client.ObjectKey{Name: v1alpha1.ClusterAPIName}}
	always            = handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{clusterAPIRequest}
	})
)

// ofVersion selects the Secrets of versions.
var ofVersion = predicate.NewPredicateFuncs(func(secret client.Object) bool { return secret.GetLabels()[v1alpha1.RevisionPartLabel] != "" })

// exceptHistory leaves out the updates of the history: the version controller itself writes it, and nothing follows from it.
var exceptHistory = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectNew.GetName() != history.ConfigMapName }}

// byOthers selects the updates of the ClusterAPI object by other clients.
var byOthers = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return status.WrittenByOthers(e.ObjectOld, e.ObjectNew) }}

// retainedCRD selects the beginning, the end and the deletion of retained CRDs: conditions name them.
var retainedCRD = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool { return isRetained(e.ObjectOld) != isRetained(e.ObjectNew) },
	DeleteFunc: func(e event.DeleteEvent) bool { return isRetained(e.Object) },
}

func isRetained(crd client.Object) bool { return v1alpha1.AllowsAdoption(crd.GetAnnotations()) }

// checkedCRD selects the CRDs that the installer checks (the unmanaged CRDs of the
// ClusterAPI object in a cache) and the CRD of the API that checks them instead.
func checkedCRD(reader client.Reader) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(crd client.Object) bool {
		cluster := &v1alpha1.ClusterAPI{}
		if err := reader.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return false // the object causes a reconcile when it is created
		}
		unmanaged := cluster.Spec.UnmanagedCRDs
		for _, version := range cluster.Status.Versions {
			unmanaged = slices.Concat(unmanaged, version.UnmanagedCRDs)
		}
		return crd.GetName() == compatibility.RequirementsCRD || slices.Contains(unmanaged, crd.GetName())
	})
}

// controllerOptions returns options with one worker and a backoff. Syncing a cache may
// take a day, because a slow API server or a missing permission must not end the program.
func controllerOptions(retries workqueue.TypedRateLimiter[reconcile.Request]) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 1,
		CacheSyncTimeout:        24 * time.Hour,
		RateLimiter:             retries,
	}
}

// newRetries returns the rate limiter of a controller with a single request. The delay of a
// retry starts at a second and doubles with each further error, up to half a minute: the
// installer recovers soon after the cause is gone. The first success ends the delays, and
// so does progress beside an error: the API server may reject one object after the other.
func newRetries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 30*time.Second)
}
