// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// bed is a new cluster with the installer's manifests, behind a proxy that counts requests and adds a latency to each.
type bed struct {
	dir        string
	cluster    *controlplane.Cluster
	admin      client.Client // bypasses the proxy
	watched    cache.Cache   // of the ClusterAPI object: polling it would keep the API server busy
	unwatch    func() error  // ends the watch
	proxy      *faults.Proxy
	registry   *registry.Registry
	kubeconfig string // of the installer's service account, through the proxy
}

// newBed starts a cluster. The caller closes it.
func newBed(ctx context.Context, dir string, roundTrip time.Duration) (b *bed, err error) {
	b = &bed{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.cluster, err = controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr}); err != nil {
		return b, err
	}
	if err := b.prepare(ctx); err != nil {
		return b, err
	}
	if b.registry, err = registry.Start(registry.Options{}); err != nil {
		return b, err
	}
	if roundTrip > 0 {
		b.registry.Fail(registry.Fault{Delay: roundTrip})
		b.proxy.Fail(faults.Fault{Delay: roundTrip})
	}
	return b, nil
}

// prepare applies the manifests of a release, and puts the proxy before the API server.
func (b *bed) prepare(ctx context.Context) error {
	scheme, err := install.Scheme()
	if err != nil {
		return err
	}
	if b.admin, err = client.New(b.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if _, err := (fixture.Preparation{}).Apply(ctx, b.cluster.Config); err != nil {
		return err
	}
	operands := &corev1.Namespace{}
	operands.Name = v1alpha1.OperandNamespace
	privileged := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	if err := b.admin.Patch(ctx, operands, privileged); err != nil { // not all providers are made for OpenShift
		return err
	}
	config, err := fixture.InstallerConfig(ctx, b.cluster)
	if err != nil {
		return err
	}
	if b.proxy, err = faults.Start(config); err != nil {
		return err
	}
	kubeconfig, err := b.proxy.Kubeconfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.kubeconfig, kubeconfig, 0o600); err != nil {
		return err
	}
	return b.watch(ctx, scheme)
}

// watch watches the ClusterAPI object.
func (b *bed) watch(ctx context.Context, scheme *runtime.Scheme) (err error) {
	if b.watched, err = cache.New(b.cluster.Config, cache.Options{Scheme: scheme}); err != nil {
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
	if b.proxy != nil {
		err = errors.Join(err, b.proxy.Close())
	}
	if b.registry != nil {
		err = errors.Join(err, b.registry.Close())
	}
	if b.cluster != nil {
		err = errors.Join(err, b.cluster.Stop())
	}
	return err
}

// verbs returns the requests so far.
func (b *bed) verbs() verbs {
	out := verbs{}
	for request, count := range b.proxy.Requests() {
		verb := request.Verb
		if request.DryRun {
			verb = "dry run"
		}
		out[verb] += count
	}
	return out
}

// serverCPU returns the CPU seconds of the API server so far.
func (b *bed) serverCPU() float64 { return running(b.cluster.PID("kube-apiserver")) }

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
var ownPaths = []string{"/namespaces/" + v1alpha1.OperatorNamespace + "/", "/clusterapis", "/clusteroperators", "/events"}

// firstWrite returns a channel that receives the time of the next write of a provider's object.
func (b *bed) firstWrite() <-chan time.Time {
	first := make(chan time.Time, 1)
	b.proxy.Observe(func(o faults.Observation) {
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

// push pushes images with bundles and returns their references by name.
func (b *bed) push(bundles []extractor.Bundle) (map[string]string, error) {
	images := map[string]string{}
	for _, bundle := range bundles {
		image, err := pack.Pack(nil, bundle)
		if err != nil {
			return nil, err
		}
		name := bundle.Metadata.ProviderName
		if images[name], err = b.registry.Push("bench/"+name, image); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// writeImages writes the images.json of a release.
func (b *bed) writeImages(images map[string]string) error {
	content, err := json.Marshal(images)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "images.json"), content, 0o600)
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
