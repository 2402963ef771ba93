// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestKubernetes_FromClusterctl installs the providers with clusterctl itself, and then follows docs/from-clusterctl.md.
func TestKubernetes_FromClusterctl(t *testing.T) {
	k := newKubernetes(t)
	w := walkthrough{k, filepath.Join(t.TempDir(), "capi-manifests")}
	w.must(fixture.Build(w.Context(), w.program, "../..", "./cmd/capi-manifests"))
	w.clone()
	w.bases()
	w.clusterctlInit()
	w.runBlock("Generate a bundle")
	w.runBlock("Append them")
	w.runBlock("Write `images.json`")
	takeover := k.commands("docs/from-clusterctl.md", "## Takeover")
	k.kubectl(takeover[0]...)
	k.run()
	var message string
	for _, command := range takeover[1:] {
		message = k.kubectl(command...)
	}
	before := w.crds()
	for _, command := range regexp.MustCompile(`kubectl ([^;&]+)`).FindAllStringSubmatch(message, -1) {
		k.kubectl(strings.Fields(command[1])...)
	}
	k.settled("1.0.0-1")
	if diff := cmp.Diff(before, w.crds()); diff != "" {
		t.Errorf("CRDs and their UIDs (-before +after):\n%s", diff)
	}
	for _, phrase := range []string{"## What stays", "In `capi-system` only", "have the installer remove the rest"} {
		for _, command := range k.commands("docs/from-clusterctl.md", phrase) {
			k.kubectl(command...)
		}
	}
	k.settled("1.0.0-1")
	deployments := strings.Fields(k.kubectl("get", "deployments", "--all-namespaces", "--output", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`))
	want := []string{
		"capi-installer-system/capi-installer", "capi-system/capd-controller-manager", "capi-system/capi-controller-manager",
		"capi-system/capi-kubeadm-bootstrap-controller-manager", "capi-system/capi-kubeadm-control-plane-controller-manager",
	}
	if diff := cmp.Diff(want, deployments); diff != "" {
		t.Errorf("Deployments (-want +got):\n%s", diff)
	}
	for _, kind := range []string{"crds", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		if found := k.kubectl("get", kind, "--output=yaml"); strings.Contains(found, "cert-manager.io/inject-ca-from") {
			t.Errorf("%s have annotations for cert-manager", kind)
		}
	}
}

// crds returns the names of the CRDs and their UIDs.
func (w walkthrough) crds() string {
	w.Helper()
	return w.kubectl("get", "crds", "--output", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
}

// clusterctlInit installs the kustomize directories with "clusterctl init" from a repository in a folder.
func (w walkthrough) clusterctlInit() {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.folder, "cert-manager.yaml"), []byte(fmt.Sprintf(certManagerCRD, "Issuer", "issuers")+fmt.Sprintf(certManagerCRD, "Certificate", "certificates")), 0o600))
	w.kubectl("apply", "-f", filepath.Join(w.folder, "cert-manager.yaml"))
	repository := filepath.Join(w.folder, "repository")
	var providers strings.Builder
	for _, p := range []struct{ folder, label, name, kind string }{
		{"core", "cluster-api", "cluster-api", "CoreProvider"},
		{"bootstrap/kubeadm", "bootstrap-kubeadm", "kubeadm", "BootstrapProvider"},
		{"controlplane/kubeadm", "control-plane-kubeadm", "kubeadm", "ControlPlaneProvider"},
		{"test/infrastructure/docker", "infrastructure-docker", "docker", "InfrastructureProvider"},
	} {
		release := filepath.Join(repository, p.label, "v1.14.2")
		w.must(os.MkdirAll(release, 0o700))
		components := w.kubectl("kustomize", filepath.Join(w.folder, "cluster-api", p.folder, "config/default"))
		w.must(os.WriteFile(filepath.Join(release, "components.yaml"), []byte(components), 0o600))
		w.must(os.WriteFile(filepath.Join(release, "metadata.yaml"), []byte(releaseSeries), 0o600))
		fmt.Fprintf(&providers, "- {name: %s, type: %s, url: %s/components.yaml}\n", p.name, p.kind, release)
	}
	config := filepath.Join(w.folder, "clusterctl.yaml")
	w.must(os.WriteFile(config, []byte("providers:\n"+providers.String()), 0o600))
	program := filepath.Join(w.TempDir(), "clusterctl")
	w.must(fixture.Build(w.Context(), program, "../realnode/providers", "sigs.k8s.io/cluster-api/cmd/clusterctl"))
	home := w.TempDir()
	command := exec.CommandContext(w.Context(), program, "init", "--config", config, "--kubeconfig", w.Cluster.Kubeconfig,
		"--core", "cluster-api:v1.14.2", "--bootstrap", "kubeadm:v1.14.2", "--control-plane", "kubeadm:v1.14.2", "--infrastructure", "docker:v1.14.2")
	command.Env = []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "HOME=" + home, "XDG_CONFIG_HOME=" + home} // it reads its configuration also from the environment
	output, err := command.CombinedOutput()
	if err != nil {
		w.Fatalf("clusterctl init: %v\n%s", err, output)
	}
	// cert-manager does not run here: its Secret of one certificate.
	w.kubectl("create", "secret", "generic", "capi-webhook-service-cert", "--namespace=capi-system")
	w.kubectl("annotate", "secret", "capi-webhook-service-cert", "--namespace=capi-system", "cert-manager.io/certificate-name=capi-serving-cert")
}

const releaseSeries = `apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 14, contract: v1beta2}]
`

// certManagerCRD is a CRD that clusterctl needs of cert-manager: it creates an Issuer and a Certificate.
const certManagerCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
`
