// SPDX-License-Identifier: Apache-2.0

// Command capi-lifecycle-hooks is a Runtime Extension: it delays the creation and the upgrade of Clusters with topology while
// the installer rolls out providers. It reads the ClusterAPI object, and keeps no state. docs/lifecycle-hooks.md describes it.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extension/lifecyclehook"
)

// options are the flags of the program. controller-runtime adds --kubeconfig.
type options struct {
	address, certDir, namespace string
	limit                       time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.address, "bind-address", ":9443", "address of the server")
	flag.StringVar(&o.certDir, "cert-dir", "/etc/capi-lifecycle-hooks", "directory with tls.crt and tls.key, reloaded on change")
	flag.StringVar(&o.namespace, "namespace", v1alpha1.KubernetesNamespaces.Operator, "namespace of the installer, with its revision ConfigMaps")
	flag.DurationVar(&o.limit, "limit", lifecyclehook.DefaultLimit, "maximum delay of Clusters by a version; then they continue, with an event")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "capi-lifecycle-hooks:", err)
		os.Exit(1)
	}
}

// run serves the hooks until ctx ends.
func run(ctx context.Context, o options) error {
	cluster, err := connect()
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	certificates, err := certwatcher.New(filepath.Join(o.certDir, "tls.crt"), filepath.Join(o.certDir, "tls.key"))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w; docs/lifecycle-hooks.md describes its Secret", err)
	}
	handler := &lifecyclehook.Handler{
		State: func(ctx context.Context) (lifecyclehook.State, error) {
			return lifecyclehook.Read(ctx, o.namespace, cluster)
		},
		Limit: o.limit,
		Exceeded: func(ctx context.Context, state lifecyclehook.State, blocker lifecyclehook.Blocker) {
			err := cluster.Create(ctx, lifecyclehook.EventAbout(state.Cluster, blocker, o.limit, time.Now()))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				log.FromContext(ctx).Error(err, "Writing an event failed", "blocker", blocker.String())
			}
		},
	}
	return serve(ctx, o.address, certificates, handler.Routes())
}

func connect() (client.Client, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server limits requests
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

const (
	// requestTimeout bounds reading a request and writing its answer. Cluster API waits for 5 seconds.
	requestTimeout = 10 * time.Second
	// closeTimeout is the time for answers that are being written when the program ends.
	closeTimeout = time.Second
)

// serve serves a handler over HTTPS until ctx ends.
func serve(ctx context.Context, address string, certificates *certwatcher.CertWatcher, handler http.Handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{
		Addr: address, Handler: handler, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: time.Minute,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificates.GetCertificate, NextProtos: []string{"http/1.1"}},
		BaseContext: func(net.Listener) context.Context { return log.IntoContext(ctx, ctrl.Log) },
	}
	go func() { cancel(certificates.Start(ctx)) }()
	go func() { cancel(server.ListenAndServeTLS("", "")) }()
	<-ctx.Done()
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	if err := server.Shutdown(closing); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopping the server: %w", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serving lifecycle hooks: %w", err)
	}
	return nil
}
