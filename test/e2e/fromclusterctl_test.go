// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestKubernetes_FromClusterctl installs the providers with clusterctl itself, and then follows docs/from-clusterctl.md.
func TestKubernetes_FromClusterctl(t *testing.T) {
	k, w := managedByClusterctl(t)
	takeover := k.commands("docs/from-clusterctl.md", "## Takeover")
	k.kubectl(takeover[0]...)
	k.run()
	var message string
	for _, command := range takeover[1:] {
		message = k.kubectl(command...)
	}
	before := w.crds()
	k.adopt(message)
	k.settled("1.0.0-1")
	if diff := cmp.Diff(before, w.crds()); diff != "" {
		t.Errorf("CRDs and their UIDs (-before +after):\n%s", diff)
	}
	for _, phrase := range []string{"## What stays", "In `capi-system` only", "let the installer remove the rest"} {
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

// TestKubernetes_FromClusterctlInItsNamespaces keeps the namespaces of clusterctl, as the page describes: the installer takes over all Deployments in
// them, and issues the certificates of their webhooks there.
func TestKubernetes_FromClusterctlInItsNamespaces(t *testing.T) {
	k, w := managedByClusterctl(t)
	namespaces := map[string]string{
		"cluster-api-bootstrap-kubeadm": "capi-kubeadm-bootstrap-system", "cluster-api-control-plane-kubeadm": "capi-kubeadm-control-plane-system", "cluster-api-provider-docker": "capd-system",
	}
	var components []any
	for _, component := range slices.Sorted(maps.Keys(namespaces)) {
		k.permit(namespaces[component])
		components = append(components, map[string]any{"name": component, "namespace": namespaces[component]})
	}
	takeover := k.commands("docs/from-clusterctl.md", "## Takeover")
	k.kubectl(takeover[0]...)
	p := k.run()
	k.kubectl(takeover[1]...)
	settings, err := json.Marshal(map[string]any{"spec": map[string]any{"components": components}})
	k.must(err)
	k.kubectl("patch", "clusterapi", "cluster", "--type=merge", "--patch="+string(settings))
	var message string
	k.eventually("the objects in the namespaces of clusterctl collide", func() error {
		message = k.kubectl("get", "clusterapi", "cluster", `--output=jsonpath={.status.conditions[?(@.type=="InstallerDegraded")].message}`)
		if !strings.Contains(message, "--namespace=capd-system") {
			return fmt.Errorf("the message is %q", message)
		}
		return nil
	})
	const each = `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.uid}{"\n"}{end}`
	before, crds := k.kubectl("get", "deployments", "--all-namespaces", "--output", each), w.crds()
	k.adopt(message)
	k.settled(k.kubectl("get", "clusterapi", "cluster", "--output=jsonpath={.status.desiredVersion}")) // the second one if the settings were late
	if diff := cmp.Diff(before, k.kubectl("get", "deployments", "--all-namespaces", "--output", each)); diff != "" {
		t.Errorf("Deployments and their UIDs (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(crds, w.crds()); diff != "" {
		t.Errorf("CRDs and their UIDs (-before +after):\n%s", diff)
	}
	for name, service := range map[string]string{"capd-mutating-webhook-configuration": "capd-system", "capi-kubeadm-bootstrap-mutating-webhook-configuration": "capi-kubeadm-bootstrap-system"} {
		configuration := k.kubectl("get", "mutatingwebhookconfiguration", name, "--output=jsonpath={.webhooks[0].clientConfig.service.namespace} {.webhooks[0].clientConfig.caBundle}")
		namespace, bundle, _ := strings.Cut(configuration, " ")
		if namespace != service || bundle == "" {
			t.Errorf("webhook configuration %s has a Service in namespace %q, and a CA bundle of %d bytes", name, namespace, len(bundle))
		}
		if secrets := k.kubectl("get", "secrets", "--namespace="+service, "--output=jsonpath={.items[?(@.type==\"kubernetes.io/tls\")].metadata.name}"); !strings.Contains(secrets, "webhook-service-cert") {
			t.Errorf("the Secrets in %s are %q", service, secrets)
		}
	}
	k.kubectl("scale", "deployment", "capd-controller-manager", "--namespace=capd-system", "--replicas=0")
	k.eventually("drift in the other namespace is reverted", func() error {
		if replicas := k.kubectl("get", "deployment", "capd-controller-manager", "--namespace=capd-system", "--output=jsonpath={.spec.replicas}"); replicas != "1" {
			return fmt.Errorf("%s replicas", replicas)
		}
		return nil
	})
	k.kubectl("delete", "clusterapi", "cluster", "--timeout=5m")
	p.end()
	if left := strings.TrimSpace(k.kubectl("get", "deployments", "--all-namespaces", "--output", "name")); left != "deployment.apps/capi-installer" {
		t.Errorf("Deployments after the uninstallation: %s", left)
	}
}

// TestKubernetes_FromClusterAPIOperator stops and removes cluster-api-operator, whose own manifests are applied, with the commands of the page.
func TestKubernetes_FromClusterAPIOperator(t *testing.T) {
	k := newKubernetes(t)
	module, err := fixture.Pinned(t.Context(), "sigs.k8s.io/cluster-api-operator")
	k.must(err)
	config := filepath.Join(t.TempDir(), "config")
	k.must(os.CopyFS(config, os.DirFS(filepath.Join(module, "config"))))
	k.kubectl("apply", "--server-side", "-k", filepath.Join(config, "crd"))
	provider := filepath.Join(k.folder, "provider.yaml")
	k.must(os.WriteFile(provider, []byte(`
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: CoreProvider
metadata: {name: cluster-api, namespace: default, finalizers: [provider.cluster.x-k8s.io]}
`), 0o600))
	k.shell("kubectl wait crd/coreproviders.operator.cluster.x-k8s.io --for=condition=Established", "kubectl apply -f "+provider)
	k.shell("kubectl apply --server-side --force-conflicts -k " + filepath.Join(config, "default") + " || true") // without the objects of cert-manager
	const page, left = "docs/from-clusterctl.md", `kubectl get crds,mutatingwebhookconfigurations,validatingwebhookconfigurations --output=name | grep -c operator || true`
	if found := k.shell(left, "kubectl get deployments --namespace=capi-operator-system --output=jsonpath={.items[*].spec.replicas}"); found != "9\n1" {
		t.Fatalf("CRDs and webhook configurations, and replicas, are %q", found)
	}
	k.shell(documented(t, page, "With cluster-api-operator, stop it")...)
	k.shell(documented(t, page, "With cluster-api-operator, delete its CRDs last")...)
	if found := k.shell(left, "kubectl get deployments --namespace=capi-operator-system --output=jsonpath={.items[*].spec.replicas}"); found != "0\n0" {
		t.Errorf("CRDs and webhook configurations, and replicas, are %q", found)
	}
}

// managedByClusterctl returns a cluster in which clusterctl has installed providers, and the bundles of these.
func managedByClusterctl(t *testing.T) (*kubernetes, walkthrough) {
	t.Helper()
	w := newWalkthrough(t)
	w.clusterctlInit()
	return w.kubernetes, w
}

// adopt runs the commands of a message about collisions.
func (k *kubernetes) adopt(message string) {
	k.Helper()
	for _, command := range regexp.MustCompile(`kubectl ([^;&]+)`).FindAllStringSubmatch(message, -1) {
		k.kubectl(strings.Fields(command[1])...)
	}
}

// permit lets the installer use another namespace for providers, as docs/install.md describes.
func (k *kubernetes) permit(namespace string) {
	k.Helper()
	file := filepath.Join(k.folder, "kustomization.yaml")
	text, err := os.ReadFile(file)
	k.must(err)
	all := map[string]any{}
	k.must(yaml.Unmarshal(text, &all))
	resources, _ := all["resources"].([]any)
	patches, _ := all["patches"].([]any)
	folder := filepath.Join(k.folder, namespace)
	k.must(os.MkdirAll(folder, 0o700))
	own := fmt.Sprintf("namespace: %s\nresources: [%s]\n", namespace, filepath.Join("..", fmt.Sprint(resources[0]), "providers-namespace"))
	k.must(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(own), 0o600))
	all["resources"] = append(resources, namespace)
	all["patches"] = append(patches, map[string]any{
		"target": map[string]any{"kind": "Deployment", "name": "capi-installer"},
		"patch":  "- {op: add, path: /spec/template/spec/containers/0/args/-, value: --providers-namespace=" + namespace + "}",
	})
	text, err = yaml.Marshal(all)
	k.must(err)
	k.must(os.WriteFile(file, text, 0o600))
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
