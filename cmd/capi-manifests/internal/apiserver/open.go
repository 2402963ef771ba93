// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Embedded is the server that Open starts.
const Embedded = "embedded"

// Open connects to the cluster of a kubeconfig for dry runs, or starts a control
// plane that runs until stop is called. program is the file of the control plane's
// program; if it is empty, Open finds or builds one.
func Open(ctx context.Context, server, program string, stderr io.Writer) (cluster *Cluster, stop func(), err error) {
	if server == Embedded {
		return openEmbedded(ctx, program, stderr)
	}
	config, err := term.Interruptible(ctx, func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", server) })
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig %s: %w", server, err)
	}
	if cluster, err = Connect(config, false); err != nil {
		return nil, nil, err
	}
	version, err := cluster.Discovery.ServerVersion()
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the cluster of %s: %w", server, withNextStep(err))
	}
	fmt.Fprintf(stderr, "checking against the cluster of %s, Kubernetes %s, with dry runs\n", term.Printable(server), term.Printable(version.GitVersion))
	return cluster, func() {}, nil
}

func openEmbedded(ctx context.Context, program string, stderr io.Writer) (cluster *Cluster, stop func(), err error) {
	if program, err = FindControlPlane(ctx, program, stderr); err != nil {
		return nil, nil, err
	}
	_, config, stop, err := startEmbedded(ctx, program, stderr)
	if err != nil {
		return nil, nil, err
	}
	if cluster, err = Connect(config, true); err == nil {
		err = cluster.Prepare(ctx)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return cluster, stop, nil
}
