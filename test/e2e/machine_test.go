// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// blockCache creates a file in the place of the cache directory: all reads and writes of the cache fail, as on a full
// or broken disk.
func (c *cycle) blockCache() {
	c.Helper()
	c.must(os.Rename(c.Cache, c.Cache+".unblocked"))
	c.must(os.WriteFile(c.Cache, nil, 0o600))
}

func (c *cycle) unblockCache() {
	c.Helper()
	c.must(os.Remove(c.Cache))
	c.must(os.Rename(c.Cache+".unblocked", c.Cache))
}

// moveTimes moves the times in both status objects, the only times that the installer compares with its clock: the
// opposite move of its clock would have the same effect.
func (c *cycle) moveTimes(by time.Duration) {
	c.event("clock", (-by).String())
	move := func(at *metav1.Time) { *at = metav1.NewTime(at.Add(by)) }
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster, err := c.clusterAPI()
		if err != nil {
			return err
		}
		for i := range cluster.Status.Conditions {
			move(&cluster.Status.Conditions[i].LastTransitionTime)
		}
		for _, version := range cluster.Status.Versions {
			for i := range version.Phases {
				move(&version.Phases[i].Since)
				for j := range version.Phases[i].WaitingFor {
					move(&version.Phases[i].WaitingFor[j].Since)
				}
			}
		}
		return c.Status().Update(context.Background(), cluster)
	})
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		operator, err := c.clusterOperator()
		if err != nil {
			return err
		}
		for i := range operator.Status.Conditions {
			move(&operator.Status.Conditions[i].LastTransitionTime)
		}
		return c.Status().Update(context.Background(), operator)
	})
}
