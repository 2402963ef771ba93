// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// rollouts measures the installation and the upgrade of real providers, with the installer and with kubectl: sixteen with
// PROVIDERS, and otherwise the four of the demonstration.
func rollouts(ctx context.Context, r *run) error {
	binary := filepath.Join(r.dir, "capi-installer")
	if err := fixture.Build(ctx, binary, "", "github.com/capi-installer/capi-installer/cmd/capi-installer"); err != nil {
		return err
	}
	providers, err := r.providers(ctx)
	if err != nil {
		return err
	}
	for _, roundTrip := range r.roundTrips {
		b := &rolloutBench{run: r, binary: binary, roundTrip: roundTrip, environment: []string{memoryLimit}, rows: map[string]*row{}}
		if err := b.measure(ctx, providers); err != nil {
			return err
		}
	}
	return nil
}

// providers returns the bundles of real providers.
func (r *run) providers(ctx context.Context) ([]extractor.Bundle, error) {
	dir, err := r.folder("providers")
	if err != nil {
		return nil, err
	}
	all, err := bundles.Sixteen(dir)
	if err != nil || all != nil {
		return all, err
	}
	progress("PROVIDERS is not set: the rollouts are those of the four providers of make demo, and not compared with the baseline")
	return bundles.Four(ctx, dir)
}

// rolloutBench measures at one round trip time.
type rolloutBench struct {
	*run
	binary    string
	roundTrip time.Duration
	// environment is the environment of the installer.
	environment []string
	rows        map[string]*row
	versions    [][]revision.Phase // the installed versions
}

// ours adds a row.
func (b *rolloutBench) ours(id string, used cost) {
	b.rows[id] = &row{ID: id, RoundTrip: b.roundTrip.Milliseconds(), Ours: used}
}

func (b *rolloutBench) peer(id string, used cost) { b.rows[id].Peers = append(b.rows[id].Peers, used) }

func (b *rolloutBench) measure(ctx context.Context, providers []extractor.Bundle) error {
	crowd := loadSize{crds: 500, objects: fullLoad.objects}.part(b.loadScale)
	err := b.withBed(ctx, "installer", func(bed *bed) error {
		if b.crowd {
			if err := bed.crowd(ctx, crowd); err != nil {
				return err
			}
		}
		return b.installer(ctx, bed, providers)
	})
	if err != nil {
		return err
	}
	workload := fmt.Sprintf("%d providers, %d objects", len(providers), len(together(b.versions[0]).Objects))
	if b.crowd {
		workload += fmt.Sprintf(", %d CRDs and %d objects of other owners", crowd.crds, crowd.objects)
	} else if err := b.withBed(ctx, "kubectl", func(bed *bed) error { return b.kubectl(ctx, bed) }); err != nil {
		return err
	}
	for _, id := range rowIDs {
		if row := b.rows[id]; row != nil {
			row.Workload = workload
			if err := b.add(*row); err != nil {
				return err
			}
		}
	}
	return nil
}

// withBed calls do with a new cluster.
func (b *rolloutBench) withBed(ctx context.Context, name string, do func(*bed) error) (err error) {
	progress("starting a control plane for %s at %s", name, b.roundTrip)
	dir, err := b.folder(name + "-" + b.roundTrip.String())
	if err != nil {
		return err
	}
	bed, err := newBed(ctx, dir, b.roundTrip)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	return do(bed)
}

// installer measures the installer.
func (b *rolloutBench) installer(ctx context.Context, bed *bed, providers []extractor.Bundle) error {
	images, err := bed.Push(providers...)
	if err != nil {
		return err
	}
	one := changed(providers[len(providers)-1:])
	var peak int64
	for n, step := range []struct {
		id      string
		changed []extractor.Bundle
	}{{"install", nil}, {"upgrade-one", one}, {"upgrade-all", changed(changed(providers))}} {
		newer, err := bed.Push(step.changed...)
		if err != nil {
			return err
		}
		maps.Copy(images, newer)
		if err := bed.WriteImages(images); err != nil {
			return err
		}
		used, err := b.release(ctx, bed, step.id, fmt.Sprintf("4.22.%d", n))
		if err != nil {
			return fmt.Errorf("%s: %w", step.id, err)
		}
		peak = max(peak, used.Memory)
	}
	used, err := b.restart(ctx, bed)
	if err != nil {
		return err
	}
	b.ours("memory-peak", cost{Program: used.Program, Memory: max(peak, used.Memory)})
	return nil
}

// changed returns bundles with another version, so that their images have other digests.
func changed(all []extractor.Bundle) []extractor.Bundle {
	all = slices.Clone(all)
	for i := range all {
		all[i].Metadata.ProviderVersion += "-changed"
	}
	return all
}

// release measures the rollout of a release.
func (b *rolloutBench) release(ctx context.Context, bed *bed, id, release string) (used cost, err error) {
	progress("%s at %s", id, b.roundTrip)
	i, err := bed.start(ctx, b.binary, release, b.environment...)
	if err != nil {
		return used, err
	}
	defer i.Kill()
	if id == "install" {
		first, err := i.wrote(ctx)
		if err != nil {
			return used, err
		}
		b.ours("first-write", first)
	}
	used, version, err := i.installed(ctx, release)
	if err != nil {
		return used, err
	}
	b.ours(id, used)
	phases, err := bed.phases(ctx, version)
	if err != nil {
		return used, err
	}
	b.versions = append(b.versions, phases)
	return used, i.Stop()
}

// phases returns the phases of an installed version.
func (b *bed) phases(ctx context.Context, version string) ([]revision.Phase, error) {
	configMaps := &corev1.ConfigMapList{}
	if err := b.Admin.List(ctx, configMaps, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator)); err != nil {
		return nil, err
	}
	stored, err := revision.FromConfigMaps(version, configMaps.Items)
	if err != nil {
		return nil, err
	}
	set, err := stored.Decode()
	if err != nil {
		return nil, err
	}
	return revision.Phases(version, 1, set, nil)
}

// restart measures a start with nothing to do, the repair of a deleted object, and the memory at rest.
func (b *rolloutBench) restart(ctx context.Context, bed *bed) (used cost, err error) {
	progress("restart at %s", b.roundTrip)
	i, err := bed.start(ctx, b.binary, fmt.Sprintf("4.22.%d", len(b.versions)-1), b.environment...)
	if err != nil {
		return used, err
	}
	defer i.Kill()
	used, err = i.rest(ctx)
	if err != nil {
		return used, err
	}
	b.ours("restart", used)
	lowest, err := i.resting(ctx)
	if err != nil {
		return used, err
	}
	b.ours("memory-rest", cost{Program: used.Program, Memory: lowest})
	repaired, err := i.repair(ctx, victim(b.versions[0]))
	if err != nil {
		return used, err
	}
	b.ours("repair", repaired)
	return used, i.Stop()
}

// victim returns an object that is deleted and must come back.
func victim(phases []revision.Phase) *unstructured.Unstructured {
	objects := together(phases).Objects
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceAccount" })
	return objects[at]
}

// repair deletes an object and measures until the installer has created it again.
func (i *installer) repair(ctx context.Context, object *unstructured.Unstructured) (cost, error) {
	before, start := i.cost(), time.Now()
	if err := i.Admin.Delete(ctx, object.DeepCopy()); err != nil {
		return cost{}, err
	}
	err := i.wait(ctx, object.GetName()+" is back", func() error {
		return i.Admin.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())
	})
	after := i.cost()
	return cost{
		Program: after.Program, Seconds: time.Since(start).Seconds(), CPU: after.CPU - before.CPU, Requests: after.Requests - before.Requests,
	}, err
}

// kubectl measures the same steps with kubectl, with the objects of the installed versions.
func (b *rolloutBench) kubectl(ctx context.Context, bed *bed) error {
	k, err := newKubectl(ctx, bed)
	if err != nil {
		return err
	}
	last := len(b.versions) - 1
	for n, id := range []string{"install", "upgrade-one", "upgrade-all", "restart", "repair"} {
		progress("%s at %s with kubectl", id, b.roundTrip)
		if id == "repair" {
			if err := bed.Admin.Delete(ctx, victim(b.versions[0])); err != nil {
				return err
			}
		}
		all, err := k.apply(ctx, b.versions[min(n, last)])
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		b.peer(id, all)
	}
	return os.RemoveAll(filepath.Join(k.dir, "kubectl-cache"))
}
