// SPDX-License-Identifier: Apache-2.0

// Program corewebhooks serves the webhooks of Cluster API's core provider on 127.0.0.1, with the
// certificate in a directory, as the provider's own program does. That program listens on all
// addresses; this one also runs no controllers.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1" //nolint:staticcheck // the CRDs still serve this version
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // the CRDs still serve this version
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1alpha1 "sigs.k8s.io/cluster-api/api/ipam/v1alpha1" //nolint:staticcheck // the CRDs still serve this version
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"   //nolint:staticcheck // the CRDs still serve this version
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1" //nolint:staticcheck // the CRDs still serve this version
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	options := webhook.Options{Host: "127.0.0.1"}
	flag.StringVar(&options.CertDir, "cert-dir", "", "directory of tls.crt and tls.key")
	flag.IntVar(&options.Port, "port", 0, "port of 127.0.0.1")
	flag.Func("feature-gates", "features of the provider, such as ClusterTopology=true", feature.MutableGates.Set)
	untilEOF := flag.Bool("until-eof", false, "run until standard input ends, so that it ends with the program at the other end")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	ctx, stop := context.WithCancel(ctrl.SetupSignalHandler())
	if *untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
			stop()
		}()
	}
	err := run(ctx, options)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options webhook.Options) error {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1beta1.AddToScheme, clusterv1.AddToScheme,
		addonsv1beta1.AddToScheme, addonsv1.AddToScheme, runtimev1alpha1.AddToScheme, runtimev1.AddToScheme,
		ipamv1alpha1.AddToScheme, ipamv1beta1.AddToScheme, ipamv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, WebhookServer: webhook.NewServer(options), Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return err
	}
	if err := serve(manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// unservedVersion is the version of the references to a kind that no CRD defines. The provider finds none and cannot
// convert such an object.
const unservedVersion = "v1"

// serve adds the webhooks. They read without a cache, so that they know each object that was created before the request.
func serve(manager ctrl.Manager) error {
	conversion.SetAPIVersionGetter(func(_ context.Context, kind schema.GroupKind) (string, error) {
		mapping, err := manager.GetRESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			return kind.WithVersion(unservedVersion).GroupVersion().String(), nil
		}
		if err != nil {
			return "", err
		}
		return mapping.GroupVersionKind.GroupVersion().String(), nil
	})
	for _, kind := range webhooks(manager.GetAPIReader()) {
		if err := kind.SetupWebhookWithManager(manager); err != nil {
			return err
		}
	}
	return nil
}

// kindWebhooks are the webhooks of a kind.
type kindWebhooks interface {
	SetupWebhookWithManager(ctrl.Manager) error
}

func webhooks(reader client.Reader) []kindWebhooks {
	return []kindWebhooks{
		&admission.ClusterClass{Client: reader}, &admission.Cluster{Client: reader}, &admission.Machine{}, &admission.MachineSet{},
		&admission.MachineDeployment{}, &admission.MachinePool{}, &admission.MachineHealthCheck{}, &admission.MachineDrainRule{},
		&admission.ClusterResourceSet{}, &admission.ClusterResourceSetBinding{}, &admission.ExtensionConfig{},
		&admission.IPAddress{Client: reader}, &admission.IPAddressClaim{},
	}
}
