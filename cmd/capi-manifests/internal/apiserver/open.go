// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Open connects to the cluster of a kubeconfig for dry runs.
func Open(ctx context.Context, kubeconfig string, stderr io.Writer) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	cluster, err := Connect(config)
	if err != nil {
		return nil, err
	}
	version, err := cluster.Discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of %s: %w", kubeconfig, withNextStep(err))
	}
	fmt.Fprintf(stderr, "checking against the cluster of %s, Kubernetes %s, with dry runs\n", term.Printable(kubeconfig), term.Printable(version.GitVersion))
	return cluster, nil
}
