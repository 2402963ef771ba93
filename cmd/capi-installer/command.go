// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
	"github.com/capi-installer/capi-installer/install"
)

// gracePeriod is how long the program waits, when it is told to end, for what it
// does to come to an end. A watch that has failed before may sleep half a minute
// without looking up, and is not worth holding the lease for.
const gracePeriod = 5 * time.Second

// concurrentPulls bounds how many images are read at once; the large layers among them take turns.
const concurrentPulls = 20

// flags are the flags of the command.
type flags struct {
	imagesJSON, release, platform, cacheDir, kubeconfig string
	healthAddress, metricsAddress, pprofAddress         string
	leaderElect                                         bool
	registriesConf, authFile                            string
	certsDirs                                           []string
	leaseDuration, renewDeadline, retryPeriod           time.Duration
}

func command() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "capi-installer",
		Short: "Install the Cluster API providers of a release and keep them so",
		Long: `capi-installer runs in a cluster. It reads the operand images of its release from
images.json, takes the manifests out of them, and installs the providers for the
cluster's platform. Steer it with the ClusterAPI object named "cluster"; read its
state there and on the ClusterOperator "cluster-api".`,
		Example: `  # In a cluster, as the Deployment in manifests/ runs it
  RELEASE_VERSION=4.22.0 capi-installer --images-json=/etc/capi-installer/images.json --leader-elect

  # On a workstation, against the current kubeconfig's cluster
  capi-installer --kubeconfig=$HOME/.kube/config --images-json=images.json --release-version=4.22.0 --platform=AWS`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	f.register(cmd)
	return cmd
}

func (f *flags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.imagesJSON, "images-json", "/etc/capi-installer/images.json", "file that names the operand images of the release")
	set.StringVar(&f.release, "release-version", os.Getenv("RELEASE_VERSION"), "version of the release; by default from RELEASE_VERSION")
	set.StringVar(&f.platform, "platform", "", "platform of the cluster, such as AWS; by default from the Infrastructure object")
	set.StringVar(&f.cacheDir, "cache-dir", "", "directory for what was read from images, made if it is missing; by default it is kept in memory")
	set.StringVar(&f.registriesConf, "registries-conf", "", "registries.conf with mirrors, besides those that the cluster's objects name; its drop-in files are in the directory of its name with \".d\" at its end")
	set.StringVar(&f.authFile, "authfile", "", "file with credentials for registries (.dockerconfigjson), besides the cluster's pull secret")
	set.StringArrayVar(&f.certsDirs, "certs-dir", network.CertsDirs, "directory with certificates of registries, in one directory for each host; can be repeated")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; by default the cluster that this runs in")
	set.StringVar(&f.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	set.StringVar(&f.pprofAddress, "pprof-bind-address", "0", "address of /debug/pprof, for profiles of memory and processor; 0 for none")
	set.BoolVar(&f.leaderElect, "leader-elect", false, "work only while holding the lease, so that one of several replicas works")
	set.DurationVar(&f.leaseDuration, "leader-elect-lease-duration", 137*time.Second, "how long a lease lasts that is not renewed")
	set.DurationVar(&f.renewDeadline, "leader-elect-renew-deadline", 107*time.Second, "how long the leader tries to renew before it gives up")
	set.DurationVar(&f.retryPeriod, "leader-elect-retry-period", 26*time.Second, "how long to wait between tries")
}

// run runs both controllers until ctx ends.
func run(ctx context.Context, f *flags) error {
	if f.release == "" {
		return errors.New("the release version is not known; give --release-version or set RELEASE_VERSION")
	}
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // the API server's own flow control decides
	config.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	switch err := awaitAPIServer(ctx, config); {
	case errors.Is(err, context.Canceled):
		return nil // told to end while it waited
	case err != nil:
		return err
	}
	mgr, err := f.manager(config)
	if err != nil {
		return err
	}
	registries, store := f.registries(mgr.GetAPIReader()), &cache.Store{Dir: f.cacheDir}
	err = install.AddToManager(mgr, install.Options{
		ImagesJSON: f.imagesJSON, Release: f.release, Platform: f.platform,
		Fetcher: fetcher(registries, store), Registries: registries, Pin: store.Pin,
	})
	if err != nil {
		return err
	}
	return start(ctx, mgr)
}

// start runs the manager until ctx ends. What then outlasts the grace period ends
// with the program, which is no failure.
func start(ctx context.Context, mgr manager.Manager) error {
	err := mgr.Start(ctx)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		mgr.GetLogger().Info("Ended without waiting longer", "gracePeriod", gracePeriod.String())
		return nil
	}
	return err
}

func (f *flags) manager(config *rest.Config) (manager.Manager, error) {
	scheme, err := install.Scheme()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: install.CacheOptions(),
		HealthProbeBindAddress: f.healthAddress, Metrics: metricsserver.Options{BindAddress: f.metricsAddress}, PprofBindAddress: f.pprofAddress,
		LeaderElection: f.leaderElect, LeaderElectionID: "capi-installer", LeaderElectionNamespace: v1alpha1.OperatorNamespace,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: new(gracePeriod),
		LeaseDuration: &f.leaseDuration, RenewDeadline: &f.renewDeadline, RetryPeriod: &f.retryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
}

// registries are those that the cluster's nodes would pull from.
func (f *flags) registries(reader client.Reader) *install.Registries {
	registries := &install.Registries{Reader: reader, CertsDirs: f.certsDirs, AuthFile: f.authFile, TempDir: f.cacheDir}
	if f.registriesConf != "" {
		registries.Conf = &mirror.Files{Conf: f.registriesConf}
	}
	return registries
}

// fetcher reads images, a few at a time, each once.
func fetcher(registries *install.Registries, store *cache.Store) extractor.Fetcher {
	registry := &remote.Registry{Puller: &pull.Puller{Access: registries.Access, Wrap: instrument}, Layers: store}
	return install.MeasureReads(&cache.Cached{Store: store, Next: install.MeasurePulls(remote.Limit(registry, concurrentPulls))})
}

// instrument counts what registries are asked.
func instrument(next http.RoundTripper) http.RoundTripper {
	return remote.Instrument(metrics.Registry, next)
}
