// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// mode is a way to install the operator that docs/install.md describes.
type mode struct {
	install, uninstall string               // phrases before the commands in docs/install.md and docs/uninstall.md
	upgrade            func(*administrator) // docs/upgrade.md describes it in words
}

const singleFile = "capi-installer-kubernetes.yaml"

var modes = map[string]mode{
	"pod": {install: "### With kustomize", uninstall: "# Uninstall", upgrade: func(a *administrator) {
		a.types("kubectl apply -k .")
	}},
	"workstation": {install: "## From a workstation", uninstall: "# Uninstall", upgrade: func(a *administrator) {
		a.stop()
		a.types(documented(a.T, "docs/install.md", "## From a workstation")...)
	}},
	"single file": {install: "### With a single file", uninstall: "# Uninstall", upgrade: func(a *administrator) {
		a.types(documented(a.T, "docs/install.md", "### With a single file")...)
	}},
	"Helm": {install: "### With Helm", uninstall: "With Helm,", upgrade: func(a *administrator) {
		a.types(strings.NewReplacer("helm install", "helm upgrade", "--create-namespace ", "").Replace(documented(a.T, "docs/install.md", "### With Helm")[0]))
	}},
}

// TestKubernetes_PagesFromFreshToEmpty types the commands of the pages: an installation, an upgrade, the way to an empty cluster, and the same
// installation again.
func TestKubernetes_PagesFromFreshToEmpty(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	must(t, os.Symlink(controlplane.Binary(t), filepath.Join(bin, "kubectl")))
	must(t, fixture.Build(t.Context(), filepath.Join(bin, "capi-manifests"), "../..", "./cmd/capi-manifests"))
	_, err := fixture.Go(t.Context(), "../clusterctl/helm", nil, "build", "-o", filepath.Join(bin, "helm"), "helm.sh/helm/v4/cmd/helm")
	must(t, err)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			a := newAdministrator(t, mode, bin)
			before, err := fixture.UIDs(t.Context(), a.Cluster.Config)
			a.must(err)
			a.request("1.0.0")
			a.types(documented(t, "docs/install.md", mode.install)...)
			a.atRest("1.0.0-1")
			a.request("1.1.0")
			mode.upgrade(a)
			a.atRest("1.1.0-2")
			a.uninstall()
			a.leaves(before, v1alpha1.KubernetesNamespaces.Operator, v1alpha1.KubernetesNamespaces.Operand)

			a.types(documented(t, "docs/install.md", mode.install)...)
			a.atRest("1.1.0-1")
			a.uninstall()
			a.types("kubectl delete namespace " + v1alpha1.KubernetesNamespaces.Operator + " " + v1alpha1.KubernetesNamespaces.Operand)
			a.leaves(before)
		})
	}
}

// administrator types commands in a folder with the files that the pages name.
type administrator struct {
	*kubernetes
	mode
	release string // that the files request
	bin     string // the programs
	program *process
}

func newAdministrator(t *testing.T, mode mode, bin string) *administrator {
	t.Helper()
	a := &administrator{kubernetes: newKubernetes(t), mode: mode, release: "1.0.0", bin: bin}
	root, err := filepath.Abs("../..")
	a.must(err)
	a.must(os.Symlink(root, filepath.Join(a.folder, "capi-installer")))
	a.must(os.WriteFile(filepath.Join(a.folder, singleFile), []byte(a.kubectl("kustomize", "../../deploy/kubernetes")), 0o600))
	return a
}

// request writes the files of a release.
func (a *administrator) request(release string) {
	a.Helper()
	docker := fixture.Synthetic{Name: "cluster-api-provider-docker", Platform: "None", Version: "v" + release, Extra: certified}
	images := []fixture.Synthetic{core("v" + release), docker}
	for i := range images {
		images[i].Namespace = v1alpha1.KubernetesNamespaces.Operand
	}
	pushed := a.imagesOf(images...)
	a.writeImages(pushed)
	a.setRelease(a.release, release)
	a.release = release

	values := map[string]any{}
	a.must(yaml.UnmarshalStrict([]byte(fenced(a.T, "docs/install.md", "### With Helm", "yaml")), &values))
	values["releaseVersion"], values["images"] = release, pushed
	content, err := yaml.Marshal(values)
	a.must(err)
	a.must(os.WriteFile(filepath.Join(a.folder, "values.yaml"), content, 0o600))
}

// types runs commands with the requested release. After each, the node starts and ends the pod of the Deployment, and mounts the ConfigMap.
func (a *administrator) types(lines ...string) {
	a.Helper()
	for _, line := range lines {
		line = strings.NewReplacer("release-version=1.0.0", "release-version="+a.release, "images-json=images.json", "images-json="+a.ImagesJSON, "$KUBECONFIG", a.Cluster.Kubeconfig).Replace(line)
		if arguments, isInstaller := strings.CutPrefix(line, "capi-installer "); isInstaller {
			a.program = launch(a.T, a.memory, nil, append(strings.Fields(arguments), "--cache-dir="+a.Cache)...)
			a.Cleanup(a.program.end)
			a.eventually("the program has the lease", func() error { // without a pod and a holder, capi-manifests status is BLOCKED
				if !a.program.logged("Successfully acquired lease") {
					return errors.New("not yet")
				}
				return nil
			})
			continue
		}
		if output, err := a.shell(line); err != nil {
			a.Fatalf("%s: %v\n%s\n%s", line, err, output, a.conditions())
		}
		a.node()
	}
}

// shell runs a command and returns its output.
func (a *administrator) shell(line string) (string, error) {
	ctx, stop := context.WithTimeout(a.Context(), 2*patience)
	defer stop()
	command := exec.CommandContext(ctx, "sh", "-e", "-c", line)
	command.Dir = a.folder
	command.Env = append(os.Environ(), "HOME="+a.folder, "KUBECONFIG="+a.Cluster.Kubeconfig, "PATH="+a.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	return string(output), err
}

// node stands for the kubelet.
func (a *administrator) node() {
	a.Helper()
	deployment := &appsv1.Deployment{}
	err := a.Get(a.Context(), client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operator, Name: "capi-installer"}, deployment)
	a.must(client.IgnoreNotFound(err))
	switch wanted := err == nil && *deployment.Spec.Replicas > 0; {
	case wanted && a.program == nil:
		a.program = a.run()
	case wanted:
		a.project()
	case a.program != nil:
		a.stop()
	}
}

// stop ends the program as the kubelet and Ctrl-C do: without permissions, it cannot release its lease.
func (a *administrator) stop() {
	a.Helper()
	_ = a.program.Stop()
	a.program = nil
}

// uninstall types the commands of docs/uninstall.md. Without an installation, capi-manifests status must not report one at rest.
func (a *administrator) uninstall() {
	a.Helper()
	for i, line := range documented(a.T, "docs/uninstall.md", a.mode.uninstall) {
		if strings.Contains(a.mode.install, "single file") {
			line = strings.Replace(line, "-k .", "-f "+singleFile, 1)
		}
		a.types(line)
		if i == 0 {
			continue // the installer still runs
		}
		if output, err := a.shell("capi-manifests status"); err == nil || strings.Contains(output, "AT REST") {
			a.Errorf("after %s, capi-manifests status: %v\n%s", line, err, output)
		}
	}
	if a.program != nil {
		a.Errorf("the installer still runs after the commands of %q", a.mode.uninstall)
		a.stop()
	}
}

// atRest types the command of docs/upgrade.md that waits for a release, and expects this version alone.
func (a *administrator) atRest(version string) {
	a.Helper()
	wait := strings.ReplaceAll(documented(a.T, "docs/upgrade.md", "can be started before the change:")[0], "4.22.1", a.release)
	if output, err := a.shell(wait); err != nil || !strings.Contains(output, "AT REST") {
		a.Fatalf("%s: %v\n%s", wait, err, output)
	}
	a.must(a.unsettled(version))
}

// leaves expects all objects from before the installation, and no others except these namespaces.
func (a *administrator) leaves(before map[string]types.UID, namespaces ...string) {
	a.Helper()
	kept := map[string]bool{}
	for _, namespace := range namespaces {
		kept["namespaces /"+namespace], kept["serviceaccounts "+namespace+"/default"], kept["configmaps "+namespace+"/kube-root-ca.crt"] = true, true, true
	}
	a.within(time.Minute, "nothing of the installation is left", func() error {
		after, err := fixture.UIDs(a.Context(), a.Cluster.Config)
		for name, uid := range after {
			if before[name] != uid && !kept[name] {
				err = errors.Join(err, errors.New(name))
			}
		}
		lease := &coordinationv1.LeaseList{}
		if listed := a.List(a.Context(), lease, client.InNamespace(v1alpha1.KubernetesNamespaces.Operator)); listed != nil || len(lease.Items) > 0 {
			err = errors.Join(err, listed, errors.New("a lease"))
		}
		return err
	})
}
