// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Read reads the input of a decision. A missing ClusterAPI object means that nothing is installed.
func Read(ctx context.Context, namespace string, reader client.Reader) (State, error) {
	state := State{Cluster: &v1alpha1.ClusterAPI{}}
	err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, state.Cluster)
	if client.IgnoreNotFound(err) != nil {
		return State{}, fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	desired := state.Cluster.Status.DesiredVersion
	if desired == "" || state.Cluster.Status.Settled() {
		return state, nil
	}
	stored := &corev1.ConfigMap{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: desired}, stored)
	if client.IgnoreNotFound(err) != nil {
		return State{}, fmt.Errorf("reading revision ConfigMap %s/%s: %w", namespace, desired, err)
	}
	state.Stored = stored.CreationTimestamp.Time
	return state, nil
}
