// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
)

// memoryLimit is the environment of the rollouts, as the Deployment in manifests/ sets it.
const memoryLimit = "GOMEMLIMIT=200MiB"

// installer is a running capi-installer.
type installer struct {
	*bed
	*installation.Process
	started time.Time
	before  cost // of the API server before it started
	first   <-chan time.Time
}

// start starts the capi-installer of a release with further variables in its environment.
func (b *bed) start(ctx context.Context, binary, release string, environment ...string) (i *installer, err error) {
	if err := b.awaitIdle(ctx); err != nil {
		return nil, err
	}
	i = &installer{bed: b, before: cost{Verbs: b.verbs(), ServerCPU: b.serverCPU()}, first: b.firstWrite(), started: time.Now()}
	i.Process, err = installation.Launch(binary, append(environment, "HOME="+b.dir, "TMPDIR="+b.dir), nil, b.Arguments(release)...)
	return i, err
}

// cost returns the cost since the start.
func (i *installer) cost() cost {
	verbs := i.verbs().since(i.before.Verbs)
	return cost{
		Program: "capi-installer", Seconds: time.Since(i.started).Seconds(), CPU: installation.CPU(i.PID),
		ServerCPU: i.serverCPU() - i.before.ServerCPU, Requests: verbs.sum(), Verbs: verbs, Memory: installation.PeakResident(i.PID),
	}
}

// wait waits until check returns nil, while the process runs.
func (i *installer) wait(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := poll(ctx, what, func() error {
		if !i.Runs() {
			cancel(fmt.Errorf("capi-installer ended: %w", i.Err))
		}
		return check()
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, i.Log())
	}
	return nil
}

// installed waits until only a version of this release exists, and returns the cost and the name of the version.
func (i *installer) installed(ctx context.Context, release string) (used cost, version string, err error) {
	err = i.wait(ctx, "release "+release+" is installed", func() error {
		cluster := &v1alpha1.ClusterAPI{}
		if err := i.watched.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
			return err
		}
		version = cluster.Status.CurrentVersion
		return notInstalled(cluster.Status, release)
	})
	return i.cost(), version, err
}

// notInstalled returns an error until only a version of the release exists and the conditions say that it is installed.
func notInstalled(s v1alpha1.ClusterAPIStatus, release string) error {
	if !strings.HasPrefix(s.CurrentVersion, release+"-") {
		return fmt.Errorf("the release is not installed: %s", fixture.DescribeStatus(s))
	}
	return fixture.Unsettled(s, s.CurrentVersion)
}

// wrote returns the cost until the first write of a provider's object.
func (i *installer) wrote(ctx context.Context) (used cost, err error) {
	var at time.Time
	err = i.wait(ctx, "capi-installer writes", func() error {
		select {
		case at = <-i.first:
			return nil
		default:
			return errors.New("nothing was written")
		}
	})
	used = i.cost()
	used.Seconds = at.Sub(i.started).Seconds()
	return used, err
}

// rest waits until both controllers have reconciled and are idle, and for a second the program has made no request and has
// used hardly any CPU. It returns the cost until then, without that second. It asks the program only then, because metrics
// take CPU.
func (i *installer) rest(ctx context.Context) (used cost, err error) {
	const quiet, hardlyAny = time.Second, 0.05
	var since time.Time
	err = i.wait(ctx, "capi-installer has nothing to do", func() error {
		if now := i.cost(); since.IsZero() || now.Requests != used.Requests || now.CPU > used.CPU+hardlyAny {
			used, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("it was busy less than a second ago")
		}
		busy := i.busy(ctx)
		if busy != nil {
			since = time.Time{}
		}
		return busy
	})
	return used, err
}

// busy returns an error until both controllers have reconciled and are idle.
func (i *installer) busy(ctx context.Context) error {
	metrics, err := i.ReadMetrics(ctx)
	if err != nil {
		return err
	}
	const label = "controller"
	reconciled, active, waiting := metrics.By("controller_runtime_reconcile_total", label), metrics.By("controller_runtime_active_workers", label), metrics.By("workqueue_depth", label)
	for _, controller := range []string{"version", "installer"} {
		if reconciled[controller] == 0 {
			return fmt.Errorf("controller %s has not reconciled", controller)
		}
		if active[controller]+waiting[controller] > 0 {
			return fmt.Errorf("controller %s is busy", controller)
		}
	}
	return nil
}

// resting returns the resident memory once it has not fallen for ten seconds.
func (i *installer) resting(ctx context.Context) (lowest int64, err error) {
	var since time.Time
	err = i.wait(ctx, "the memory has settled", func() error {
		if now := installation.Resident(i.PID); lowest == 0 || now < lowest-256<<10 {
			lowest, since = now, time.Now()
		}
		if time.Since(since) < 10*time.Second {
			return errors.New("it is still falling")
		}
		return nil
	})
	return lowest, err
}
