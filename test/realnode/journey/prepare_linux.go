// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/realnode"
)

// Files in the folder of a run.
const (
	managersFolder  = "managers"
	providersFolder = "cluster-api" // the kustomize directories, as in a clone of Cluster API
	imageFolder     = "image"       // the operator's image, an OCI layout
	deployFolder    = "project"     // the operator's manifests
	toolFile        = "capi-manifests"
	clusterctlFile  = "clusterctl"
	probeFile       = "probe"
)

// provider is a provider of the journey: its program, its kustomize directory, and other arguments of generate.
type provider struct {
	key, main     string
	kustomization string // in the folder of the run; of the first providers, as in Cluster API's repository
	name, kind    string
	placeholder   string            // for the image of the manager
	images        map[string]string // replacements of images in the manifests
	platform      string
}

// platform is the platform of the cluster.
const platform = "None" // as in docs/install.md

var providers = []provider{
	{key: "core", main: "sigs.k8s.io/cluster-api/core", kustomization: providersFolder + "/core/config/default", name: "cluster-api", kind: "core",
		placeholder: "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2"},
	{key: "bootstrap", main: "sigs.k8s.io/cluster-api/bootstrap/kubeadm", kustomization: providersFolder + "/bootstrap/kubeadm/config/default", name: "cluster-api-bootstrap-kubeadm", kind: "bootstrap",
		placeholder: "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:v1.14.2"},
	{key: "control-plane", main: "sigs.k8s.io/cluster-api/controlplane/kubeadm", kustomization: providersFolder + "/controlplane/kubeadm/config/default", name: "cluster-api-control-plane-kubeadm", kind: "controlplane",
		placeholder: "registry.k8s.io/cluster-api/kubeadm-control-plane-controller:v1.14.2"},
	{key: "docker", main: "sigs.k8s.io/cluster-api/test/infrastructure/docker", kustomization: providersFolder + "/test/infrastructure/docker/config/default", name: "cluster-api-provider-docker", kind: "infrastructure",
		placeholder: "gcr.io/k8s-staging-cluster-api/capd-manager:v1.14.2", platform: platform},
}

// Prepare builds everything that the journey needs into the folder of a run. It needs the go command and make, so it runs
// outside of the namespaces.
func Prepare(ctx context.Context, dir string, progress io.Writer) error {
	if err := realnode.Build(ctx, dir, progress); err != nil {
		return err
	}
	for _, p := range providers {
		if err := realnode.Compile(ctx, "providers", p.main, filepath.Join(dir, managersFolder, p.key), progress); err != nil {
			return err
		}
	}
	if err := realnode.Compile(ctx, "providers", "sigs.k8s.io/cluster-api/cmd/clusterctl", filepath.Join(dir, clusterctlFile), progress); err != nil {
		return err
	}
	if err := realnode.Compile(ctx, ".", "./probe", filepath.Join(dir, probeFile), progress); err != nil {
		return err
	}
	if err := copyManifests(ctx, dir); err != nil {
		return err
	}
	return buildProject(ctx, dir, progress)
}

// buildProject runs the make targets of the project, and copies the results and the manifests.
func buildProject(ctx context.Context, dir string, progress io.Writer) error {
	root, err := fixture.Folder(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(progress, "building the operator's image and capi-manifests")
	command := exec.CommandContext(ctx, "make", "--no-print-directory", "image", "build")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running make image build: %w\n%s", err, output)
	}
	copies := map[string]string{
		"_output/image": imageFolder, "manifests": deployFolder + "/manifests", "deploy": deployFolder + "/deploy", "docs": deployFolder + "/docs",
	}
	for from, to := range copies {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(filepath.Join(root, from))); err != nil {
			return fmt.Errorf("copying %s: %w", from, err)
		}
	}
	content, err := os.ReadFile(filepath.Join(root, "bin", toolFile))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, toolFile), content, 0o755)
}

// copyManifests copies the kustomize directories of the providers to their paths in Cluster API's repository.
func copyManifests(ctx context.Context, dir string) error {
	copied, err := os.MkdirTemp(dir, "kustomize-")
	if err != nil {
		return err
	}
	found, err := fixture.Providers(ctx, copied)
	if err != nil {
		return err
	}
	docker, err := fixture.DockerProvider(ctx, copied)
	if err != nil {
		return err
	}
	for _, source := range append(found, docker) {
		for _, p := range providers {
			if p.name != source.Name {
				continue
			}
			target := filepath.Join(dir, filepath.Dir(p.kustomization))
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
			if err := os.Rename(filepath.Dir(source.Kustomization), target); err != nil {
				return err
			}
		}
	}
	return nil
}
