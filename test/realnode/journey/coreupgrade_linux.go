// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/realnode"
)

// formerCore is the core provider of Cluster API v1.10, and newCore the one of v1.14. Only the latter has v1beta2, and stores objects in it.
var (
	formerCore = provider{key: "core-v1.10", main: "sigs.k8s.io/cluster-api", kustomization: "former/config/default", name: "cluster-api", kind: "core",
		placeholder: "gcr.io/k8s-staging-cluster-api/cluster-api-controller:main"}
	newCore = providers[0]
)

// PrepareCoreUpgrade builds everything that CoreUpgrade needs into the folder of a run, as Prepare does.
func PrepareCoreUpgrade(ctx context.Context, dir string, progress io.Writer) error {
	if err := realnode.Build(ctx, dir, progress); err != nil {
		return err
	}
	for _, program := range []struct{ module, main, output string }{
		{"former", formerCore.main, filepath.Join(managersFolder, formerCore.key)},
		{"providers", newCore.main, filepath.Join(managersFolder, newCore.key)},
		{".", "./probe", probeFile},
	} {
		if err := realnode.Compile(ctx, program.module, program.main, filepath.Join(dir, program.output), progress); err != nil {
			return err
		}
	}
	if err := copyManifests(ctx, dir); err != nil {
		return err
	}
	former, err := fixture.FormerCoreProvider(ctx, filepath.Join(dir, "copied"))
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Dir(filepath.Dir(former.Kustomization)), filepath.Join(dir, "former")); err != nil {
		return err
	}
	return buildProject(ctx, dir, progress)
}

// CoreUpgrade upgrades the core provider from v1.10 to v1.14 while a client uses all of its APIs, and returns a row for each rollout:
// a release whose manager does not serve and the way back, a good release, another broken one, and v1.10 again.
func CoreUpgrade(ctx context.Context, dir string, report func(string, ...any)) (rows []Availability, err error) {
	j, err := Start(ctx, dir, report)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Stop()) }()
	good, err := j.installFormerCore(ctx)
	if err != nil {
		return nil, err
	}
	apis, err := j.newCoreAPIs(ctx)
	if err != nil {
		return nil, err
	}
	measure := func(release string, do func() error) error {
		report("measuring: %s", release)
		row, err := apis.during(ctx, release, do)
		rows = append(rows, row)
		return err
	}
	next, err := j.coreRelease(ctx, newCore, "1.2.0", variation{})
	if err != nil {
		return nil, err
	}
	if err := measure("v1.10, at rest", func() error { return nil }); err != nil {
		return rows, err
	}
	if err := measure("v1.14 whose manager does not serve, and the way back to v1.10", func() error { return j.crashAndBack(ctx, good, "1.1.0") }); err != nil {
		return rows, err
	}
	if err := measure("v1.10 to v1.14", func() error { return errors.Join(j.roll(ctx, next), j.installed(ctx, next)) }); err != nil {
		return rows, err
	}
	if err := apis.applyIn(ctx, "v1beta2"); err != nil {
		return rows, err
	}
	if err := measure("v1.14 whose manager does not serve, and the way back to v1.14", func() error { return j.crashAndBack(ctx, next, "1.3.0") }); err != nil {
		return rows, err
	}
	const accepted = `{"spec":{"acceptedRisks":[{"name":"BreakingCRDChange","release":"1.0.0"}]}}`
	if _, err := j.kubectl(ctx, "patch", "clusterapi", v1alpha1.ClusterAPIName, "--type=merge", "-p", accepted); err != nil {
		return rows, err
	}
	return rows, measure("v1.14 to v1.10", func() error { return errors.Join(j.roll(ctx, good), j.installed(ctx, good)) })
}

// installFormerCore installs the operator, with a release of the core provider only.
func (j *Journey) installFormerCore(ctx context.Context) (release, error) {
	if err := j.logIn(); err != nil {
		return release{}, err
	}
	var err error
	if j.operatorImage, err = j.pushOperator(); err != nil {
		return release{}, err
	}
	if j.current, err = j.coreRelease(ctx, formerCore, "1.0.0", variation{}); err != nil {
		return release{}, err
	}
	const settings = "spec: {components: [{name: cluster-api, featureGates: [{name: ClusterTopology, enabled: true}, {name: RuntimeSDK, enabled: true}]}]}\n"
	if err := errors.Join(j.writeKustomization(), os.WriteFile(j.path("settings.yaml"), []byte(settings), 0o600)); err != nil {
		return release{}, err
	}
	return j.current, j.applyOperatorWithSettings(ctx)
}

// coreRelease makes a release with a core provider only.
func (j *Journey) coreRelease(ctx context.Context, p provider, version string, v variation) (release, error) {
	image, err := j.makeProvider(ctx, p, version, v)
	if err != nil {
		return release{}, fmt.Errorf("making release %s: %w", version, err)
	}
	return release{version: version, images: map[string]string{"core": image}}, nil
}

// crashAndBack rolls out a release of the new core provider whose manager does not serve, waits while its pod runs, and goes back.
func (j *Journey) crashAndBack(ctx context.Context, good release, version string) error {
	broken, err := j.coreRelease(ctx, newCore, version, variation{program: probeFile})
	if err != nil {
		return err
	}
	if err := j.roll(ctx, broken); err != nil {
		return err
	}
	if err := await(ctx, "a pod of release "+version+" exists", func(ctx context.Context) error { return j.hasPod(ctx, broken.images["core"]) }); err != nil {
		return err
	}
	time.Sleep(20 * time.Second)
	if err := j.roll(ctx, good); err != nil {
		return err
	}
	began := time.Now()
	err = j.installed(ctx, good)
	j.Report("the way back took %.0f s", time.Since(began).Seconds())
	return err
}

// hasPod returns an error unless a provider's pod has an image.
func (j *Journey) hasPod(ctx context.Context, image string) error {
	pods := &corev1.PodList{}
	if err := j.client.List(ctx, pods, client.InNamespace(v1alpha1.KubernetesNamespaces.Operand)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Spec.Containers[0].Image == image {
			return nil
		}
	}
	return fmt.Errorf("no pod of %d has image %s", len(pods.Items), image)
}
