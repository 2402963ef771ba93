// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorKilled kills the operator, and has it revert a change.
func (j *Journey) operatorKilled(ctx context.Context) error {
	pod, err := j.operatorPod(ctx)
	if err != nil {
		return err
	}
	process, err := j.node.Process(pod.Status.ContainerStatuses[0].ContainerID)
	if err != nil {
		return err
	}
	if err := process.Kill(); err != nil {
		return err
	}
	began := time.Now()
	if err := j.reverts(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	j.Report("the operator was killed; %.0f s later it reverts drift again", took.Seconds())
	if took > restartTime {
		return fmt.Errorf("the restarted operator needed %s, want at most %s: it leads at once, and does not wait for the lease of its ended process", took, restartTime)
	}
	return j.nothingLost(ctx)
}

// nodeRestarted kills all programs of the node; the containers survive.
func (j *Journey) nodeRestarted(ctx context.Context) error {
	if err := errors.Join(j.node.Kubelet.Kill(), j.node.Containerd.Kill(), j.node.Proxy.Kill()); err != nil {
		return err
	}
	if err := errors.Join(j.node.Containerd.Start(ctx), j.node.Kubelet.Start(ctx), j.node.Proxy.Start(ctx)); err != nil {
		return err
	}
	j.Report("containerd, kubelet and kube-proxy were killed and started again")
	return errors.Join(j.installed(ctx, j.current), j.nothingLost(ctx))
}

// restartTime is the time limit from the end of the operator's process to the first reverted change; the lease lasts longer.
const restartTime = 90 * time.Second

// drift has the operator revert a change.
func (j *Journey) drift(ctx context.Context) error {
	began := time.Now()
	if err := j.reverts(ctx); err != nil {
		return err
	}
	j.Report("the manager runs again after %.0f s", time.Since(began).Seconds())
	return j.nothingLost(ctx)
}

// reverts scales the Deployment of the core provider to zero, and waits until the operator has reverted it.
func (j *Journey) reverts(ctx context.Context) error {
	manager, err := j.manager(ctx)
	if err != nil {
		return err
	}
	replicas := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"replicas": 0}}`))
	if err := j.client.Patch(ctx, manager, replicas); err != nil {
		return err
	}
	return await(ctx, "the Deployment is reverted and available", func(ctx context.Context) error {
		manager, err := j.manager(ctx)
		if err == nil && (*manager.Spec.Replicas != 1 || manager.Status.AvailableReplicas != 1) {
			err = fmt.Errorf("%s has %d replicas, %d are available", manager.Name, *manager.Spec.Replicas, manager.Status.AvailableReplicas)
		}
		return err
	})
}

// manager returns the Deployment of the core provider.
func (j *Journey) manager(ctx context.Context) (*appsv1.Deployment, error) {
	var deployments appsv1.DeploymentList
	if err := j.client.List(ctx, &deployments); err != nil {
		return nil, err
	}
	for i := range deployments.Items {
		if deployments.Items[i].Name == "capi-controller-manager" {
			return &deployments.Items[i], nil
		}
	}
	return nil, errors.New("Deployment capi-controller-manager not found") //nolint:staticcheck // a kind
}
