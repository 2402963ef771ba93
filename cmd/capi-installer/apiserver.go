// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

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
