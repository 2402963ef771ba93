// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// upgrade upgrades all providers, while a client works.
func (j *Journey) upgrade(ctx context.Context) error {
	next, err := j.makeRelease(ctx, "1.1.0")
	if err != nil {
		return err
	}
	users := startTraffic(ctx, j.useCluster)
	began := time.Now()
	err = j.roll(ctx, next)
	if err == nil {
		err = j.installed(ctx, next)
	}
	j.Report("release %s is installed after %.0f s", next.version, time.Since(began).Seconds())
	time.Sleep(15 * time.Second) // the old pods end after the new ones are ready
	users.stop()
	j.reportTraffic(users)
	if err != nil {
		return err
	}
	return j.nothingLost(ctx)
}

// kubeletStopped stops kubelet while a release is rolled out. No pod starts until it runs again.
func (j *Journey) kubeletStopped(ctx context.Context) error {
	next, err := j.makeRelease(ctx, "1.2.0")
	if err != nil {
		return err
	}
	if err := j.roll(ctx, next); err != nil {
		return err
	}
	if err := await(ctx, "the rollout has begun", func(ctx context.Context) error {
		cluster, err := j.clusterAPI(ctx)
		if err == nil && !strings.HasPrefix(cluster.Status.DesiredVersion, next.version+"-") {
			err = errors.New(describe(cluster))
		}
		return err
	}); err != nil {
		return err
	}
	if err := j.node.Kubelet.Kill(); err != nil {
		return err
	}
	time.Sleep(stopped)
	cluster, err := j.clusterAPI(ctx)
	if err != nil {
		return err
	}
	if strings.HasPrefix(cluster.Status.CurrentVersion, next.version+"-") {
		return fmt.Errorf("release %s is reported as installed without kubelet", next.version)
	}
	return errors.Join(j.node.Kubelet.Start(ctx), j.installed(ctx, next), j.nothingLost(ctx))
}

// stopped is how long kubelet is stopped.
const stopped = 10 * time.Second

func (j *Journey) clusterAPI(ctx context.Context) (*v1alpha1.ClusterAPI, error) {
	cluster := &v1alpha1.ClusterAPI{}
	return cluster, j.client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
}
