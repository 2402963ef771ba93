// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// loadSize is the size of a cluster and its release.
type loadSize struct {
	// images is the number of images in images.json; providers of them have a bundle.
	images, providers int
	// crds and objects are those in the cluster that the installer does not manage.
	crds, objects int
}

// crdsOfProvider is the number of CRDs of each provider of the load.
const crdsOfProvider = 2

// fullLoad has 500 CRDs, including the CRDs of the providers.
var fullLoad = loadSize{images: 200, providers: 60, crds: 500 - 60*crdsOfProvider, objects: 30000}

// part returns a part of the load, with the core provider and the provider of the platform: a release without them is never installed.
func (s loadSize) part(divisor int) loadSize {
	return loadSize{s.images / divisor, max(2, s.providers/divisor), s.crds / divisor, s.objects / divisor}
}

func (s loadSize) String() string {
	return fmt.Sprintf("%d images, %d providers, %d CRDs, %d other objects", s.images, s.providers, s.crds+s.providers*crdsOfProvider, s.objects)
}

// load measures a large release in a large cluster, and a quarter of it, so that its rows show the growth.
func load(ctx context.Context, r *run) error {
	binary := filepath.Join(r.dir, "capi-installer-load")
	if err := fixture.Build(ctx, binary, "", "github.com/capi-installer/capi-installer/cmd/capi-installer"); err != nil {
		return err
	}
	dir, err := r.folder("load-providers")
	if err != nil {
		return err
	}
	four, err := bundles.Four(ctx, dir)
	if err != nil {
		return err
	}
	b := &rolloutBench{run: r, binary: binary}
	full := fullLoad.part(r.loadScale)
	measured := [2]map[string]*row{{}, {}} // of the complete load, and of a quarter
	for n := range loadRuns {
		for i, size := range []loadSize{full, full.part(growth)} {
			b.rows, b.versions = map[string]*row{}, nil
			if err := b.loadBoth(ctx, fmt.Sprintf("load-%d-%d", size.providers, n), size, four[1]); err != nil {
				return fmt.Errorf("load of %s: %w", size, err)
			}
			addLeast(measured[i], b.rows)
		}
	}
	for _, id := range []string{"first-write", "install", "restart", "memory-peak", "memory-rest"} {
		row := row{ID: "load-" + id, Workload: full.String(), Ours: measured[0][id].Ours, Growth: true}
		row.Peers = slices.Concat([]cost{quarter(measured[1][id].Ours)}, measured[0][id].Peers)
		for _, peer := range measured[1][id].Peers {
			row.Peers = append(row.Peers, quarter(peer))
		}
		if err := b.add(row); err != nil {
			return err
		}
	}
	return nil
}

// loadRuns is the number of runs of each size. The rows have the least cost: a busy machine only adds to it.
const loadRuns = 2

// addLeast adds rows, or the lower costs to rows that exist.
func addLeast(to, rows map[string]*row) {
	for id, row := range rows {
		known, found := to[id]
		if !found {
			to[id] = row
			continue
		}
		known.Ours = known.Ours.least(row.Ours)
		for i := range known.Peers {
			known.Peers[i] = known.Peers[i].least(row.Peers[i])
		}
	}
}

// loadBoth measures one size with the installer and with kubectl, each in a new folder, because it has a cache.
func (b *rolloutBench) loadBoth(ctx context.Context, folder string, size loadSize, kubeadm extractor.Bundle) error {
	if err := b.withBed(ctx, folder, func(bed *bed) error { return b.load(ctx, bed, size, kubeadm) }); err != nil {
		return err
	}
	return b.withBed(ctx, folder+"-kubectl", func(bed *bed) error { return b.loadKubectl(ctx, bed, size) })
}

// quarter returns the cost of a program with a quarter of the load.
func quarter(used cost) cost {
	used.Program += quarterSuffix
	return used
}

// loadKubectl measures how kubectl installs the same objects: the API server itself may be slower in a large cluster.
func (b *rolloutBench) loadKubectl(ctx context.Context, bed *bed, size loadSize) error {
	progress("preparing %s", size)
	if err := bed.crowd(ctx, size); err != nil {
		return err
	}
	k, err := newKubectl(ctx, bed)
	if err != nil {
		return err
	}
	progress("install with kubectl")
	used, err := k.apply(ctx, b.versions[0])
	b.peer("install", used)
	return err
}

// load measures one size.
func (b *rolloutBench) load(ctx context.Context, bed *bed, size loadSize, kubeadm extractor.Bundle) error {
	progress("preparing %s", size)
	if err := bed.crowd(ctx, size); err != nil {
		return err
	}
	images, err := bed.Push(copies(kubeadm, size.providers)...)
	if err != nil {
		return err
	}
	for n := range size.images - size.providers {
		image, err := random.Image(4<<10, 3)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("other-%d", n)
		if images[name], err = bed.Registry.Push("bench/"+name, image); err != nil {
			return err
		}
	}
	if err := bed.WriteImages(images); err != nil {
		return err
	}
	installed, err := b.release(ctx, bed, "install", "4.22.0")
	if err != nil {
		return err
	}
	used, err := b.restart(ctx, bed)
	b.ours("memory-peak", cost{Program: used.Program, Memory: max(installed.Memory, used.Memory)})
	return err
}

// copies returns bundles with the objects of a real provider, each with other names and API groups: one core provider, and
// infrastructure providers including AWS.
func copies(bundle extractor.Bundle, count int) (all []extractor.Bundle) {
	for n := range count {
		id := fmt.Sprintf("p%02d", n)
		renamed := bundle
		renamed.Metadata.ProviderName = "cluster-api-provider-" + id
		renamed.Metadata.ProviderType = extractor.Infrastructure
		switch n {
		case 0:
			renamed.Metadata.ProviderType = extractor.Core
		case 1:
			renamed.Metadata.OCPPlatform = "AWS"
		}
		renamed.Manifests = bytes.ReplaceAll(renamed.Manifests, []byte("bootstrap.cluster.x-k8s.io"), []byte(id+".cluster.x-k8s.io"))
		renamed.Manifests = bytes.ReplaceAll(renamed.Manifests, []byte("capi-kubeadm-bootstrap"), []byte("capi-"+id))
		renamed.Manifests = bytes.ReplaceAll(renamed.Manifests, []byte("bootstrap-kubeadm"), []byte("infrastructure-"+id))
		renamed.Metadata.ContentID = digest.FromBytes(renamed.Manifests)
		all = append(all, renamed)
	}
	return all
}

// crowd creates the CRDs and objects that the installer does not manage. Of six objects, four are instances of a CRD and one is a Namespace.
func (b *bed) crowd(ctx context.Context, size loadSize) error {
	if err := b.foreignCRDs(ctx, size.crds); err != nil {
		return err
	}
	numbers := make([]int, size.objects)
	for n := range numbers {
		numbers[n] = n
	}
	const atOnce = 16
	return errors.Join(parallel.MapLimit(numbers, atOnce, func(n int) error {
		return b.Admin.Create(ctx, foreign(n))
	})...)
}

// foreign returns the n-th object that the installer does not manage.
func foreign(n int) client.Object {
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("foreign-%d", n), Namespace: metav1.NamespaceDefault}
	text := strings.Repeat("text ", 100)
	switch n % 6 {
	case 0:
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}}
	case 1, 2, 3, 4:
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "foreign-0.example.com/v1", "kind": "Proxy", "metadata": map[string]any{"name": meta.Name}, "spec": map[string]any{"noProxy": text}}}
	}
	switch n / 6 % 4 {
	case 0:
		return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": text}}
	case 1:
		return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"text": text}}
	case 2:
		return &corev1.ServiceAccount{ObjectMeta: meta}
	}
	meta.Namespace = ""
	return &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}
}

// foreignCRDs installs copies of one of OpenShift's CRDs, each in a group of its own.
func (b *bed) foreignCRDs(ctx context.Context, count int) error {
	all, err := fixture.OpenShiftCRDs(ctx)
	if err != nil {
		return err
	}
	var renamed []*unstructured.Unstructured
	for n := range count {
		crd := all[0].DeepCopy()
		group := fmt.Sprintf("foreign-%d.example.com", n)
		plural, _, _ := strings.Cut(crd.GetName(), ".")
		crd.SetName(plural + "." + group)
		crd.SetAnnotations(nil)
		if err := unstructured.SetNestedField(crd.Object, group, "spec", "group"); err != nil {
			return err
		}
		renamed = append(renamed, crd)
	}
	return fixture.InstallCRDs(ctx, b.Cluster.Config, renamed)
}
