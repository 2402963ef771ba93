// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
	"github.com/capi-installer/capi-installer/test/registry"
)

// bed is a new cluster with the installer's manifests, behind a proxy that counts requests and adds a latency to each.
type bed struct {
	*installation.Bed
	dir     string
	watched cache.Cache  // of the ClusterAPI object: polling it would keep the API server busy
	unwatch func() error // ends the watch
}

// newBed starts a cluster. The caller closes it.
func newBed(ctx context.Context, dir string, roundTrip time.Duration) (b *bed, err error) {
	cluster, err := controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	b = &bed{dir: dir}
	if b.Bed, err = installation.New(cluster, dir); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	if err := b.prepare(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if roundTrip > 0 {
		b.Registry.Fail(registry.Fault{Delay: roundTrip})
		b.Proxy.Fail(faults.Fault{Delay: roundTrip})
	}
	return b, nil
}

// prepare prepares the cluster for all providers.
func (b *bed) prepare(ctx context.Context) error {
	if _, err := b.Prepare(ctx, fixture.Preparation{}); err != nil {
		return err
	}
	if err := b.AllowAllPods(ctx); err != nil {
		return err
	}
	return b.watch(ctx)
}

// watch watches the ClusterAPI object.
func (b *bed) watch(ctx context.Context) (err error) {
	if b.watched, err = cache.New(b.Cluster.Config, cache.Options{Scheme: b.Admin.Scheme()}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.watched.Start(ctx) }()
	b.unwatch = func() error {
		cancel()
		return <-ended
	}
	_, err = b.watched.GetInformer(ctx, &v1alpha1.ClusterAPI{})
	return err
}

func (b *bed) close() (err error) {
	if b.unwatch != nil {
		err = b.unwatch()
	}
	return errors.Join(err, b.Close(), b.Cluster.Stop())
}

// verbs returns the requests so far.
func (b *bed) verbs() verbs {
	out := verbs{}
	for request, count := range b.Proxy.Requests() {
		verb := request.Verb
		if request.DryRun {
			verb = "dry run"
		}
		out[verb] += count
	}
	return out
}

// serverCPU returns the CPU seconds of the API server so far.
func (b *bed) serverCPU() float64 { return installation.CPU(b.Cluster.PID("kube-apiserver")) }

// awaitIdle waits until the API server has done what earlier requests caused, so that it does not count for the next program.
func (b *bed) awaitIdle(ctx context.Context) error {
	const busy = 0.2 // CPU seconds in a second
	used, since := b.serverCPU(), time.Now()
	return poll(ctx, "the API server is idle", func() error {
		if time.Since(since) < time.Second {
			return errors.New("it was observed for less than a second")
		}
		before := used
		used, since = b.serverCPU(), time.Now()
		if used > before+busy {
			return fmt.Errorf("it used %.2f CPU seconds in a second", used-before)
		}
		return nil
	})
}

// ownPaths are parts of the paths of objects that the installer writes for itself.
var ownPaths = []string{"/namespaces/" + v1alpha1.OpenShiftNamespaces.Operator + "/", "/clusterapis", "/clusteroperators", "/events"}

// firstWrite returns a channel that receives the time of the next write of a provider's object.
func (b *bed) firstWrite() <-chan time.Time {
	first := make(chan time.Time, 1)
	b.Proxy.Observe(func(o faults.Observation) {
		if o.DryRun || o.Verb == faults.Get || o.Verb == faults.Watch || isOwn(o.Path) {
			return
		}
		select {
		case first <- o.Time:
		default:
		}
	})
	return first
}

func isOwn(path string) bool {
	for _, own := range ownPaths {
		if strings.Contains(path, own) {
			return true
		}
	}
	return false
}

// poll waits until check returns nil, and returns its last error after patience.
func poll(ctx context.Context, what string, check func() error) error {
	const patience = time.Hour
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w: %w", what, context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
