// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// walkthrough runs the commands of docs/kubernetes-walkthrough.md in a folder.
type walkthrough struct {
	*kubernetes
	program string // capi-manifests
}

// newWalkthrough prepares a cluster and writes images.json.
func newWalkthrough(t *testing.T) walkthrough {
	t.Helper()
	w := walkthrough{newKubernetes(t), filepath.Join(t.TempDir(), "capi-manifests")}
	w.must(fixture.Build(w.Context(), w.program, "../..", "./cmd/capi-manifests"))
	w.clone()
	w.bases()
	w.runBlock("Generate a bundle")
	w.runBlock("Append them")
	w.runBlock("Write `images.json`")
	return w
}

func TestKubernetes_Walkthrough(t *testing.T) {
	w := newWalkthrough(t)
	k := w.kubernetes
	install := documented(t, walkthroughPage, "Write the kustomization")
	w.command(install[0])
	p := k.run()
	for _, command := range install[1:] {
		w.command(command)
	}
	k.settled("1.0.0-1")
	w.clusterctlFindsTheKinds()
	w.serveCoreWebhooks()

	manifest := filepath.Join(k.folder, "cluster.yaml")
	w.must(os.WriteFile(manifest, []byte(strings.Replace(fenced(t, walkthroughPage, "Write `cluster.yaml`", "yaml"), "192.168.0.0/16", "192.168.0.0/99", 1)), 0o600))
	_, err := k.Cluster.Kubectl(t.Context(), "apply", "-f", manifest)
	if err == nil || !strings.Contains(err.Error(), "cidrBlocks[0]: Invalid value: \"192.168.0.0/99\": invalid CIDR address") {
		t.Errorf("an invalid Cluster: %v", err)
	}
	w.must(os.WriteFile(manifest, []byte(fenced(t, walkthroughPage, "Write `cluster.yaml`", "yaml")), 0o600))
	w.runBlock("The API server calls the webhook")

	w.must(os.WriteFile(filepath.Join(k.folder, "settings.yaml"), []byte(fenced(t, walkthroughPage, "Write `settings.yaml`", "yaml")), 0o600))
	w.runBlock("The installer rolls out a new version")
	k.settled("1.0.0-2")
	for _, deployment := range []string{"capi-controller-manager", "capi-kubeadm-control-plane-controller-manager", "capd-controller-manager"} {
		if arguments := w.kubectl("get", "deployment", deployment, "-n", v1alpha1.KubernetesNamespaces.Operand, "-o", "jsonpath={.spec.template.spec.containers[0].args}"); !strings.Contains(arguments, "ClusterTopology=true") {
			t.Errorf("arguments of %s: %s", deployment, arguments)
		}
	}
	p.terminate()
}

// clusterctlFindsTheKinds checks the label that lets clusterctl find the kinds of a management cluster.
func (w walkthrough) clusterctlFindsTheKinds() {
	w.Helper()
	all, labelled := strings.Fields(w.kubectl("get", "crds", "-o", "name")), strings.Fields(w.kubectl("get", "crds", "-o", "name", "-l", "clusterctl.cluster.x-k8s.io"))
	own := "customresourcedefinition.apiextensions.k8s.io/clusterapis." + v1alpha1.Prefix
	if missing := slices.DeleteFunc(all, func(crd string) bool { return crd == own || slices.Contains(labelled, crd) }); len(missing) > 0 || len(labelled) < 20 {
		w.Errorf("%d CRDs with clusterctl's label, missing: %v", len(labelled), missing)
	}
}

// clone copies the kustomize directories to the paths of git clone.
func (w walkthrough) clone() {
	w.Helper()
	written := w.TempDir()
	providers, err := fixture.Providers(w.Context(), written)
	w.must(err)
	docker, err := fixture.DockerProvider(w.Context(), written)
	w.must(err)
	places := map[string]string{
		"cluster-api": "core", "cluster-api-bootstrap-kubeadm": "bootstrap/kubeadm",
		"cluster-api-control-plane-kubeadm": "controlplane/kubeadm", docker.Name: "test/infrastructure/docker",
	}
	for _, provider := range append(providers, docker) {
		place, used := places[provider.Name]
		if !used {
			continue
		}
		target := filepath.Join(w.folder, "cluster-api", place)
		w.must(os.MkdirAll(target, 0o700))
		w.must(os.Rename(filepath.Dir(provider.Kustomization), filepath.Join(target, "config")))
	}
}

// bases pushes images in place of the providers' own, because those are on the internet.
func (w walkthrough) bases() {
	w.Helper()
	for _, name := range []string{"cluster-api-controller", "kubeadm-bootstrap-controller", "kubeadm-control-plane-controller", "capd-manager"} {
		_, err := w.Registry.PushTag("bases/"+name, "v1.14.2", empty.Image)
		w.must(err)
	}
}

// walkthroughPage is the page with the commands.
const walkthroughPage = "docs/kubernetes-walkthrough.md"

// runBlock runs the commands of the first block after a phrase.
func (w walkthrough) runBlock(phrase string) {
	w.Helper()
	for _, line := range documented(w.T, walkthroughPage, phrase) {
		w.command(line)
	}
}

// command runs a command of the page.
func (w walkthrough) command(line string) {
	w.Helper()
	line = strings.NewReplacer("$REGISTRY", w.Registry.Host()+"/test", "--base registry.k8s.io/cluster-api", "--base "+w.Registry.Host()+"/bases",
		"--base gcr.io/k8s-staging-cluster-api", "--base "+w.Registry.Host()+"/bases").Replace(line)
	line, file, _ := strings.Cut(line, " > ")
	words := strings.Fields(line)
	var output []byte
	var err error
	if words[0] == "kubectl" {
		for i, word := range words {
			if word == "." || word == "cluster.yaml" || word == "settings.yaml" {
				words[i] = filepath.Join(w.folder, word)
			}
		}
		output, err = w.Cluster.Kubectl(w.Context(), words[1:]...)
	} else {
		command := exec.CommandContext(w.Context(), w.program, words[1:]...)
		command.Dir = w.folder
		var stderr strings.Builder
		command.Stderr = &stderr
		if output, err = command.Output(); err != nil {
			err = fmt.Errorf("%w: %s", err, stderr.String())
		}
	}
	if err != nil {
		w.Fatalf("%s: %v", line, err)
	}
	if file != "" {
		w.must(os.WriteFile(filepath.Join(w.folder, file), output, 0o600))
	}
}

// serveCoreWebhooks serves the webhooks of the core provider with the certificate that its pods mount.
func (w walkthrough) serveCoreWebhooks() {
	w.Helper()
	secret := &corev1.Secret{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "capi-webhook-service-cert"}, secret))
	address := fixture.ServeCoreWebhooks(w.T, w.Cluster.Kubeconfig, secret.Data)
	w.Cluster.Route(types.NamespacedName{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "capi-webhook-service"}, address)
}
