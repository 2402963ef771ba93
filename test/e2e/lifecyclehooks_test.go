// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// hooked is a cluster with the lifecycle hooks beside the installer, the real core provider, and a made-up infrastructure provider.
type hooked struct {
	*kubernetes
	program, address, certificate string // of the server of the hooks: its file, its address, and the directory of its certificate
}

const (
	// hooksName is the name of the Service, the Secret and the ExtensionConfig of the hooks.
	hooksName = "capi-lifecycle-hooks"
	// extensionConfigs is the CRD of ExtensionConfigs.
	extensionConfigs = "extensionconfigs.runtime.cluster.x-k8s.io"
)

// hooksServer is the host of the Service of the hooks.
var hooksServer = hooksName + "." + v1alpha1.KubernetesNamespaces.Operator + ".svc"

// TestKubernetes_LifecycleHooks runs the hooks with Cluster API's core provider: its program, not only its manifests.
func TestKubernetes_LifecycleHooks(t *testing.T) {
	h := &hooked{kubernetes: newKubernetes(t), address: freeAddress(t), certificate: t.TempDir()}
	h.program = filepath.Join(t.TempDir(), hooksName)
	h.must(fixture.Build(t.Context(), h.program, "../../extension", "./cmd/capi-lifecycle-hooks"))
	h.releaseBundles(h.coreBundle(), h.docker("v1.0.0", "").Bundle())
	h.kubectl("apply", "-k", h.folder)
	p := h.run()
	h.settled("1.0.0-1")
	stopCore := h.startCore()
	h.enable()
	stopHooks := h.runHooks()
	h.discovered()
	if answer := h.ask("BeforeClusterCreate", "before-cluster-create"); answer != "Success 0 " {
		t.Errorf("at rest: %s", answer)
	}

	h.override(h.docker("v1.1.0", "first"))
	h.progressing("1.0.0-2", "cluster-api-provider-docker")
	const waiting = "waiting: version 1.0.0-2 of the Cluster API providers is being installed: phase cluster-api-provider-docker is Progressing"
	for _, hook := range []string{"BeforeClusterCreate before-cluster-create", "BeforeClusterUpgrade before-cluster-upgrade", "BeforeControlPlaneUpgrade before-control-plane-upgrade", "BeforeWorkersUpgrade before-workers-upgrade"} {
		name, handler, _ := strings.Cut(hook, " ")
		if answer := h.ask(name, handler); answer != "Success 15 "+waiting {
			t.Errorf("%s during a rollout: %s", name, answer)
		}
	}
	h.createCluster()
	h.eventually("the Cluster waits", func() error { return h.waits(waiting) })
	if created := h.count("infrastructure.cluster.x-k8s.io", "HookedCluster"); created > 0 {
		t.Errorf("%d HookedClusters were created during the rollout", created)
	}
	h.label("first")
	h.settled("1.0.0-2")
	h.eventually("the objects of the Cluster are created", func() error {
		if h.count("infrastructure.cluster.x-k8s.io", "HookedCluster") != 1 || h.count("controlplane.cluster.x-k8s.io", "HookedControlPlane") != 1 {
			return errors.New("they are not")
		}
		return nil
	})

	stopHooks()
	h.runHooks("--limit=1s")
	h.override(h.docker("v1.2.0", "second"))
	h.progressing("1.0.0-3", "cluster-api-provider-docker")
	h.eventually("the limit is exceeded", func() error {
		if answer := h.ask("BeforeClusterUpgrade", "before-cluster-upgrade"); answer != "Success 0 " {
			return errors.New(answer)
		}
		return nil
	})
	h.eventually("the event is written", func() error { return h.limitEvents("1.0.0-3") })
	h.ask("BeforeClusterCreate", "before-cluster-create")
	h.must(h.limitEvents("1.0.0-3"))
	h.label("second")
	h.settled("1.0.0-3")

	h.deleteCluster()
	h.shell(documented(t, "docs/lifecycle-hooks.md", "## Disable")...)
	stopCore()
	h.uninstalled()
	p.terminate()
}

// enable creates the Secret with the certificate by the commands of docs/lifecycle-hooks.md, and the objects of the hooks.
func (h *hooked) enable() {
	h.Helper()
	h.shell(append([]string{"cd " + h.certificate}, documented(h.T, "docs/lifecycle-hooks.md", "Without cert-manager")...)...)
	h.eventually("the objects of the hooks are applied", func() error { // the webhook of the core provider starts
		_, err := h.Cluster.Kubectl(h.Context(), "apply", "-k", "../../extension/deploy")
		return err
	})
}

// runHooks runs the program as the Deployment does, with the permissions of its service account, on loopback.
func (h *hooked) runHooks(more ...string) (stop func()) {
	h.Helper()
	account := "system:serviceaccount:" + v1alpha1.KubernetesNamespaces.Operator + ":" + hooksName
	config, err := clientcmd.LoadFromFile(h.Cluster.Kubeconfig)
	h.must(err)
	for _, user := range config.AuthInfos {
		user.Impersonate = account
	}
	kubeconfig := filepath.Join(h.TempDir(), "kubeconfig")
	h.must(clientcmd.WriteToFile(*config, kubeconfig))
	stop = fixture.StartProgram(h.T, exec.Command(h.program, append([]string{"--bind-address=" + h.address, "--cert-dir=" + h.certificate, "--kubeconfig=" + kubeconfig}, more...)...))
	h.eventually("the hooks are served", func() error {
		connection, err := new(net.Dialer).DialContext(h.Context(), "tcp", h.address)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	return stop
}

// coreBundle returns the bundle of the real core provider.
func (h *hooked) coreBundle() extractor.Bundle {
	h.Helper()
	providers, err := fixture.Providers(h.Context(), h.TempDir())
	h.must(err)
	core := providers[slices.IndexFunc(providers, func(p fixture.Provider) bool { return p.Type == extractor.Core })]
	bundle, err := bundles.Of(core, transform.Options{Profile: extractor.Kubernetes})
	h.must(err)
	return bundle
}

// docker returns the infrastructure provider of a version. With a label, it has a Deployment whose pods wait for a node with
// the label, so that its rollout lasts until the test sets the label.
func (h *hooked) docker(version, label string) fixture.Synthetic {
	provider := fixture.Synthetic{Name: "cluster-api-provider-docker", Platform: "None", Version: version, Namespace: v1alpha1.KubernetesNamespaces.Operand}
	if label != "" {
		provider.Extra = strings.NewReplacer("NAMESPACE", v1alpha1.KubernetesNamespaces.Operand, "LABEL", label, "IMAGE", "registry.ci.openshift.org/openshift:cluster-api-provider-docker").Replace(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: waiting, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: waiting}}
  template:
    metadata: {labels: {app: waiting}}
    spec:
      nodeSelector: {awaited-LABEL: "yes"}
      containers: [{name: waiting, image: "IMAGE"}]
`)
	}
	return provider
}

// label sets the label that the pods of the infrastructure provider wait for.
func (h *hooked) label(name string) {
	h.Helper()
	h.kubectl("label", "nodes", "--all", "awaited-"+name+"=yes")
}

// override releases a version of the infrastructure provider.
func (h *hooked) override(provider fixture.Synthetic) {
	h.Helper()
	h.kubectl("patch", "clusterapi", "cluster", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"imageOverrides":[{"name":%q,"image":%q}]}}`, provider.Name, h.push(provider)))
}

// progressing waits until a phase of a version that is being installed is Progressing.
func (h *hooked) progressing(version, phase string) {
	h.Helper()
	h.eventually(version+" is being installed", func() error {
		cluster, err := h.clusterAPI()
		if err != nil {
			return err
		}
		desired := cluster.Status.Version(version)
		if desired == nil || cluster.Status.CurrentVersion == version {
			return errors.New("it is not")
		}
		for _, p := range desired.Phases {
			if p.State != v1alpha1.PhaseComplete {
				if p.Name == phase && p.State == v1alpha1.PhaseProgressing {
					return nil
				}
				return fmt.Errorf("phase %s is %s", p.Name, p.State)
			}
		}
		return errors.New("no phase is Progressing")
	})
}

// extensionConfig reads the ExtensionConfig of the installer.
func (h *hooked) extensionConfig() (*unstructured.Unstructured, error) {
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(schema.GroupVersionKind{Group: "runtime.cluster.x-k8s.io", Version: "v1beta2", Kind: "ExtensionConfig"})
	return config, h.Get(h.Context(), client.ObjectKey{Name: hooksName}, config)
}

// discovered waits until Cluster API has discovered the handlers at the registered server.
func (h *hooked) discovered() {
	h.Helper()
	h.eventually("Cluster API has discovered the hooks", func() error {
		config, err := h.extensionConfig()
		if err != nil {
			return err
		}
		handlers, _, _ := unstructured.NestedSlice(config.Object, "status", "handlers")
		if state, message := conditionOf(config, "Discovered"); state != "True" || len(handlers) != 4 {
			return fmt.Errorf("Discovered is %q (%s), %d handlers", state, message, len(handlers))
		}
		return nil
	})
}

// conditionOf returns the status and the message of a condition.
func conditionOf(object *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["message"])
		}
	}
	return "", ""
}

// ask sends a request as Cluster API does: to the registered Service, with the registered CA. It returns the answer as
// status, retryAfterSeconds and message.
func (h *hooked) ask(hook, handler string) string {
	h.Helper()
	answer, err := h.call(hook, handler)
	if err != nil {
		return err.Error()
	}
	return answer
}

func (h *hooked) call(hook, handler string) (string, error) {
	config, err := h.extensionConfig()
	if err != nil {
		return "", err
	}
	encoded, _, _ := unstructured.NestedString(config.Object, "spec", "clientConfig", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	web := &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: hooksServer}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, h.address)
		},
	}}
	const group = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"cluster":{"metadata":{"name":"a"}}}`, group, hook+"Request")
	answer, err := web.Post(fmt.Sprintf("https://%s/%s/%s/%s", hooksServer, group, strings.ToLower(hook), handler), "", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var response struct {
		Status, Message   string
		RetryAfterSeconds int
	}
	if err := json.NewDecoder(answer.Body).Decode(&response); err != nil {
		return "", fmt.Errorf("%s: %w", answer.Status, err)
	}
	return fmt.Sprintf("%s %d %s", response.Status, response.RetryAfterSeconds, response.Message), nil
}

// createCluster creates the ClusterClass and the Cluster.
func (h *hooked) createCluster() {
	h.Helper()
	h.eventually("the Cluster is created", func() error { // its CRDs are not served at once
		_, err := h.Cluster.Kubectl(h.Context(), "apply", "-f", "testdata/topology.yaml")
		return err
	})
}

// waits returns an error unless the Cluster waits for this reason.
func (h *hooked) waits(reason string) error {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"})
	if err := h.Get(h.Context(), client.ObjectKey{Namespace: "default", Name: "hooked"}, cluster); err != nil {
		return err
	}
	if state, message := conditionOf(cluster, "TopologyReconciled"); state != "False" || !strings.Contains(message, reason) {
		return fmt.Errorf("TopologyReconciled is %q: %s", state, message)
	}
	return nil
}

// count returns the number of objects of a kind in namespace default.
func (h *hooked) count(group, kind string) int {
	h.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: kind + "List"})
	h.must(h.List(h.Context(), list, client.InNamespace("default")))
	return len(list.Items)
}

// deleteCluster deletes the Cluster and waits until Cluster API has deleted its objects.
func (h *hooked) deleteCluster() {
	h.Helper()
	h.kubectl("delete", "clusters.cluster.x-k8s.io", "hooked", "--namespace=default", "--timeout=2m")
	h.kubectl("delete", "clusterclass", "hooked", "--namespace=default", "--timeout=2m")
}

// limitEvents returns an error unless there is exactly one event about the limit, and it names the
// version.
func (h *hooked) limitEvents(version string) error {
	found, err := h.events("LifecycleHookLimitExceeded")
	if err != nil {
		return err
	}
	if len(found) != 1 || !strings.HasPrefix(found[0], "Warning Clusters are created and upgraded although version "+version+" ") {
		return fmt.Errorf("events: %q", found)
	}
	return nil
}

// uninstalled uninstalls, and fails the test if the CRD of the ExtensionConfig was retained.
func (h *hooked) uninstalled() {
	h.Helper()
	uninstall := h.commands("docs/uninstall.md", "# Uninstall")
	for _, command := range uninstall[:len(uninstall)-1] {
		h.kubectl(command...)
	}
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	if err := h.Get(h.Context(), client.ObjectKey{Name: extensionConfigs}, crd); !apierrors.IsNotFound(err) {
		h.Errorf("CRD %s: %v, want that it is deleted", extensionConfigs, err)
	}
}

// startCore starts the program of the core provider with the certificate that its pods mount, and the feature gates for
// topologies and Runtime Extensions. It calls Services by way of a proxy on loopback, and looks up no name.
func (h *hooked) startCore() (stop func()) {
	h.Helper()
	dir, program := h.TempDir(), h.buildCore()
	secret := &corev1.Secret{}
	h.must(h.Get(h.Context(), client.ObjectKey{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "capi-webhook-service-cert"}, secret))
	for name, content := range secret.Data {
		h.must(os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	webhooks := freeAddress(h.T)
	_, port, err := net.SplitHostPort(webhooks)
	h.must(err)
	proxy := httptest.NewServer(http.HandlerFunc(h.tunnel))
	h.Cleanup(proxy.Close)
	command := exec.Command(program, "--webhook-port="+port, "--webhook-cert-dir="+dir, "--health-addr="+freeAddress(h.T),
		"--diagnostics-address="+freeAddress(h.T), "--feature-gates=RuntimeSDK=true,ClusterTopology=true", "--kubeconfig="+h.Cluster.Kubeconfig)
	command.Env = append(os.Environ(), "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	h.Cluster.Route(types.NamespacedName{Namespace: v1alpha1.KubernetesNamespaces.Operand, Name: "capi-webhook-service"}, webhooks)
	return fixture.StartProgram(h.T, command)
}

// buildCore builds the program of the core provider. Its webhooks listen on all addresses, and it has no flag for the
// address, so the program is built from a copy of the module that sets loopback.
func (h *hooked) buildCore() string {
	h.Helper()
	dir := h.TempDir()
	module, program, modfile := filepath.Join(dir, "cluster-api"), filepath.Join(dir, "core"), filepath.Join(dir, "go.mod")
	h.must(os.CopyFS(module, os.DirFS(strings.TrimSpace(h.goClusterctl("list", "-m", "-f", "{{.Dir}}", coreModule)))))
	main := filepath.Join(module, "core", "main.go")
	source, err := os.ReadFile(main)
	h.must(err)
	const options = "webhook.Options{"
	if bytes.Count(source, []byte(options)) != 1 {
		h.Fatalf("%s does not have %q once", main, options)
	}
	h.must(os.WriteFile(main, bytes.Replace(source, []byte(options), []byte(options+`Host: "127.0.0.1",`), 1), 0o600))
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(clusterctlModule, name))
		h.must(err)
		h.must(os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	h.goClusterctl("mod", "edit", "-replace="+coreModule+"="+module, modfile)
	h.goClusterctl("build", "-mod=mod", "-modfile="+modfile, "-o", program, coreModule+"/core")
	return program
}

const (
	// coreModule is the module of the core provider's program.
	coreModule = "sigs.k8s.io/cluster-api"
	// clusterctlModule is the folder of the module that requires it.
	clusterctlModule = "../clusterctl"
)

// goClusterctl runs a go command in the module that requires Cluster API, and returns its output.
func (h *hooked) goClusterctl(args ...string) string {
	h.Helper()
	output, err := fixture.Go(h.Context(), clusterctlModule, nil, args...)
	h.must(err)
	return string(output)
}

// tunnel connects the core provider with the server of the hooks, and with nothing else.
func (h *hooked) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != hooksServer+":443" {
		http.Error(w, "no route to "+r.Host, http.StatusBadGateway)
		return
	}
	server, err := new(net.Dialer).DialContext(r.Context(), "tcp", h.address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.Close()
	}()
	_, _ = io.Copy(connection, server)
}
