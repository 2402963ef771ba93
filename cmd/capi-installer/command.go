// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/metricsserver"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/registryconfig"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/buildinfo"
)

// gracePeriod is the time that the program waits for running work when it is
// stopped. A failed watch may sleep for half a minute; this does not justify
// holding the lease.
const gracePeriod = 5 * time.Second

// concurrentPulls limits how many images are read concurrently; large layers are
// pulled one at a time.
const concurrentPulls = 20

// flags are the flags of the command.
type flags struct {
	imagesJSON, release, cacheDir, kubeconfig              string
	platforms                                              []string
	healthAddress, metricsAddress, pprofAddress            string
	metricsCertDir                                         string
	metricsInsecure, leaderElect, officialAPI              bool
	createClusterAPI                                       bool
	registryNamespace                                      string
	namespace                                              string
	providersNamespaces                                    []string
	impersonate                                            string
	identity                                               string // in the Lease; empty without --leader-elect
	registriesConf, registriesD, authFile, signaturePolicy string
	certsDirs                                              []string
	leaseDuration, renewDeadline, retryPeriod              time.Duration
}

func command() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "capi-installer",
		Short: "Install the Cluster API providers of a release",
		Long: `capi-installer runs in a cluster. It reads the images of its release from
images.json, takes the manifests out of them, and installs the providers for the
cluster's platform. Steer it with the ClusterAPI object named "cluster"; read its
state there and on the ClusterOperator "cluster-api".`,
		Example: `  # In a cluster, as the Deployment in manifests/ runs it
  RELEASE_VERSION=4.22.0 capi-installer --images-json=/etc/capi-installer/images.json --leader-elect

  # On a workstation, as the service account that may write the installed objects
  capi-installer --kubeconfig=$HOME/.kube/config --as=system:serviceaccount:openshift-cluster-api-operator:cluster-api-installer --images-json=images.json --release-version=4.22.0 --platform=AWS`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		Version:           buildinfo.Of(version).String(),
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.AddCommand(newVersion())
	f.register(cmd)
	return cmd
}

func (f *flags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.imagesJSON, "images-json", "/etc/capi-installer/images.json", "file with the images of the release")
	set.StringVar(&f.release, "release-version", os.Getenv("RELEASE_VERSION"), "version of the release; by default from RELEASE_VERSION, or else from the file release-version next to images.json, also after that file has changed")
	set.StringSliceVar(&f.platforms, "platform", nil, "platform whose infrastructure provider is installed, such as AWS; several, separated by commas or in repeated flags, in a cluster without OpenShift; by default from PLATFORM or the Infrastructure object")
	set.StringVar(&f.cacheDir, "cache-dir", "", "directory for the bundles of images, created if missing; by default they are kept in memory")
	set.StringVar(&f.registriesConf, "registries-conf", "", "registries.conf with mirrors, besides those that the cluster's objects name; its drop-in files are in the directory of its name with \".d\" at its end")
	set.StringVar(&f.namespace, "namespace", v1alpha1.OpenShiftNamespaces.Operator, "namespace of the installer and of its revision ConfigMaps")
	set.StringSliceVar(&f.providersNamespaces, "providers-namespace", []string{v1alpha1.OpenShiftNamespaces.Operand}, "namespace of the providers; their bundles must be for it; several, separated by commas or in repeated flags, in a cluster without OpenShift: the settings of a component can name one of them; the first is the default")
	set.StringVar(&f.registryNamespace, "registry-config-namespace", "", "namespace with the registry configuration of a cluster without OpenShift's APIs: Secret "+registryconfig.PullSecretName+" and ConfigMap "+registryconfig.ConfigMapName+"; by default OpenShift's objects are read")
	set.StringVar(&f.authFile, "authfile", "", "file with credentials for registries (.dockerconfigjson), besides the cluster's pull secret")
	set.StringVar(&f.signaturePolicy, "signature-policy", policy.DefaultFile, "policy.json whose signature requirements images must meet; empty for none; the default file may be missing")
	set.StringVar(&f.registriesD, "registries-d", signature.DefaultLocationsDir, "directory with lookasides of signatures, as in containers-registries.d(5); empty for none; it may be missing")
	set.StringArrayVar(&f.certsDirs, "certs-dir", fetch.CertsDirs, "directory with certificates of registries, in one directory for each host; can be repeated")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; by default the cluster that this runs in")
	set.StringVar(&f.impersonate, "as", "", "user to impersonate; the admission policies in manifests/ admit only the installer's service account")
	set.BoolVar(&f.createClusterAPI, "create-clusterapi", false, "create the ClusterAPI object at the first start in the cluster, with the settings in the file clusterapi.yaml next to images.json if there is one; a release of OpenShift creates it instead")
	set.StringVar(&f.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", ":8443", "address of /metrics; 0 for none")
	set.StringVar(&f.metricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for /metrics, reloaded on change; without them the certificate is self-signed")
	set.BoolVar(&f.metricsInsecure, "metrics-insecure", false, "serve /metrics over plain HTTP, without authentication and authorization")
	set.StringVar(&f.pprofAddress, "pprof-bind-address", "0", "address of /debug/pprof, for profiles of memory and processor; 0 for none")
	set.BoolVar(&f.officialAPI, "official-clusterapi", true, "use the ClusterAPI object of operator.openshift.io and update its status, if the cluster has it")
	set.BoolVar(&f.leaderElect, "leader-elect", false, "work only while holding the lease, so that one of several replicas works")
	set.DurationVar(&f.leaseDuration, "leader-elect-lease-duration", 137*time.Second, "duration of a lease that is not renewed")
	set.DurationVar(&f.renewDeadline, "leader-elect-renew-deadline", 107*time.Second, "time that the leader tries to renew the lease before it gives up")
	set.DurationVar(&f.retryPeriod, "leader-elect-retry-period", 26*time.Second, "time between attempts to acquire or renew the lease")
}

// run runs both controllers until ctx ends.
func run(ctx context.Context, f *flags) error {
	if _, err := os.Stat(filepath.Join(filepath.Dir(f.imagesJSON), "release-version")); f.release == "" && err != nil {
		return fmt.Errorf("release version unknown: set --release-version or RELEASE_VERSION, or add the file release-version next to %s: %w", f.imagesJSON, err)
	}
	platforms, err := operand.ParsePlatforms(cmp.Or(strings.Join(f.platforms, ","), os.Getenv("PLATFORM")))
	if err != nil {
		return err
	}
	namespaces, err := f.namespaces()
	if err != nil {
		return err
	}
	if f.leaderElect {
		f.identity = identity()
	}
	mask := &masking.Mask{}
	ctrl.SetLogger(zap.New(zap.WriteTo(mask.Writer(os.Stderr))))
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.Impersonate.UserName = f.impersonate
	config.QPS = -1 // the API server's own flow control decides
	config.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	switch err := awaitAPIServer(ctx, config); {
	case errors.Is(err, context.Canceled):
		return nil // stopped while it waited
	case err != nil:
		return err
	}
	if err := f.heldByOther(ctx, config); err != nil {
		return err
	}
	profile := &tlsprofile.Profile{}
	lock, fence, err := f.lock(config)
	if err != nil {
		return err
	}
	mgr, err := f.manager(config, namespaces, profile, lock)
	if err != nil {
		return err
	}
	registries, policies, store := f.registries(mgr.GetAPIReader()), f.policies(mgr.GetAPIReader(), namespaces.Operand), &cache.Store{Dir: f.cacheDir}
	verified := f.fetcher(registries, policies, store)
	err = install.AddToManager(mgr, install.Options{ //nolint:contextcheck // the cache calls a function of its own, without a context
		ImagesJSON: f.imagesJSON, Release: f.release, Platforms: platforms, Identity: f.identity, LateWrites: fence.lateWrites,
		Fetcher: install.MeasureReads(verified), Verdict: verified.Verifier.Verdict,
		Registries: registries, Policies: policies, Pin: store.Pin, IgnoreOfficialAPI: !f.officialAPI, CreateClusterAPI: f.createClusterAPI,
		Mask: mask, Namespaces: namespaces,
	})
	if err != nil {
		return err
	}
	return start(ctx, mgr)
}

// namespaces returns the namespaces of the installation.
func (f *flags) namespaces() (v1alpha1.Namespaces, error) {
	known := map[string]bool{f.namespace: true}
	for _, name := range f.providersNamespaces {
		switch problems := validation.IsDNS1123Label(name); {
		case problems != nil:
			return v1alpha1.Namespaces{}, fmt.Errorf("invalid --providers-namespace %q: %s", name, strings.Join(problems, "; "))
		case name == f.namespace:
			return v1alpha1.Namespaces{}, fmt.Errorf("invalid --providers-namespace %q: it is the namespace of the installer", name)
		case known[name]:
			return v1alpha1.Namespaces{}, fmt.Errorf("invalid --providers-namespace: %s is given twice", name)
		}
		known[name] = true
	}
	if len(f.providersNamespaces) == 0 {
		return v1alpha1.Namespaces{}, errors.New("invalid --providers-namespace: want at least one namespace")
	}
	return v1alpha1.Namespaces{Operator: f.namespace, Operand: f.providersNamespaces[0], Others: f.providersNamespaces[1:]}, nil
}

// start runs the manager until ctx ends. If work outlasts the grace period, it ends
// with the program, without an error.
func start(ctx context.Context, mgr manager.Manager) error {
	err := mgr.Start(ctx)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		mgr.GetLogger().Info("Stopped before all work had ended", "gracePeriod", gracePeriod.String())
		return nil
	}
	return err
}

func (f *flags) manager(config *rest.Config, namespaces v1alpha1.Namespaces, profile *tlsprofile.Profile, lock resourcelock.Interface) (manager.Manager, error) {
	scheme, err := install.Scheme()
	if err != nil {
		return nil, err
	}
	served := metricsserver.Options{Address: f.metricsAddress, Insecure: f.metricsInsecure, CertDir: f.metricsCertDir, Profile: profile}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: install.CacheOptions(namespaces),
		HealthProbeBindAddress: f.healthAddress, Metrics: served.Server(), PprofBindAddress: f.pprofAddress,
		LeaderElection: f.leaderElect, LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: new(gracePeriod),
		LeaseDuration: &f.leaseDuration, RenewDeadline: &f.renewDeadline, RetryPeriod: &f.retryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	profile.Use(mgr.GetAPIReader())
	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
}

// registries returns the registry configuration of the cluster's nodes.
func (f *flags) registries(reader client.Reader) *registryconfig.Registries {
	return &registryconfig.Registries{
		Reader: reader, Namespace: f.registryNamespace, Conf: f.registriesConf, CertsDirs: f.certsDirs, AuthFile: f.authFile, TempDir: f.cacheDir,
	}
}

// policies returns the signature policies that images must meet.
func (f *flags) policies(reader client.Reader, namespace string) *registryconfig.Policies {
	return &registryconfig.Policies{Namespace: namespace, Reader: reader, File: f.signaturePolicy, Optional: f.signaturePolicy == policy.DefaultFile}
}

// fetcher returns a Fetcher that reads only images that the signature policies
// accept, a few concurrently, each only once.
func (f *flags) fetcher(registries *registryconfig.Registries, policies *registryconfig.Policies, store *cache.Store) *signature.Verified {
	registry := &remote.Registry{Client: &fetch.Client{Settings: registries.Settings, Metrics: fetch.NewMetrics(metrics.Registry)}}
	verifier := &signature.Verifier{Policy: policies.Policy, Registry: registry, LocationsDir: f.registriesD, TempDir: f.cacheDir, Store: store}
	cached := &cache.Cached{Store: store, Next: install.MeasurePulls(remote.Limit(registry, concurrentPulls))}
	return &signature.Verified{Verifier: verifier, Next: cached}
}

// awaitAPIServer waits until the API server answers discovery requests: a
// manager needs them. It has no time limit and logs the cause of the wait.
func awaitAPIServer(ctx context.Context, config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(context.Context) (bool, error) {
		_, err := client.ServerGroups()
		if err != nil {
			ctrl.Log.Info("Waiting for the API server", "cause", err.Error())
		}
		return err == nil, nil
	})
}
