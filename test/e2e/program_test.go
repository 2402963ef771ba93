// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/manifests"
)

func TestLeaderElection_SIGTERMReleasesTheLease(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0", configMap("settings")))
	// Without a release of the lease, the second replica would wait for it longer than the test.
	lease := []string{"--leader-elect", "--leader-elect-lease-duration=300s", "--leader-elect-renew-deadline=200s", "--leader-elect-retry-period=1s"}
	first := h.start("4.22.0", lease...)
	h.settled("4.22.0-1")
	leader := h.leader()
	second := h.start("4.22.0", lease...)
	h.eventually("the second replica is ready", func() error { return answers(second.Health + "/readyz") })
	if now := h.leader(); now != leader || leader == "" {
		t.Errorf("holder of the lease: first %q, now %q", leader, now)
	}
	first.terminate()
	h.eventually("the second replica has the lease", func() error { return h.succeeded(leader) })
	h.recreated("settings")
	second.terminate()
	if now := h.leader(); now != "" {
		t.Errorf("after SIGTERM the holder of the lease is still %s", now)
	}
}

// recreated deletes an installed ConfigMap, and waits until it exists again.
func (h *harness) recreated(name string) {
	h.Helper()
	configMap := &corev1.ConfigMap{}
	configMap.Namespace, configMap.Name = namespace, name
	h.must(h.Delete(h.Context(), configMap))
	h.eventually("the deleted object is recreated", func() error { return h.Get(h.Context(), client.ObjectKeyFromObject(configMap), configMap) })
}

// leader returns the holder of the lease; empty if there is none.
func (h *harness) leader() string {
	h.Helper()
	lease := &coordinationv1.Lease{}
	h.must(h.Get(context.Background(), client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "capi-installer"}, lease))
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestProgram_ServesHealthAndMetrics(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	for _, path := range []string{"/healthz", "/readyz"} {
		h.must(answers(p.Health + path))
	}
	metrics, err := get(p.Metrics + "/metrics")
	h.must(err)
	for _, name := range []string{"capi_installer_registry_requests_total{", "rest_client_requests_total{", "controller_runtime_reconcile_total{"} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("%s is missing in /metrics", name)
		}
	}
}

// answers returns an error unless a URL responds with status 200.
func answers(url string) error {
	_, err := get(url)
	return err
}

func get(url string) (string, error) {
	response, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s responds with %s", url, response.Status)
	}
	return string(body), err
}

func TestPermissions_MissingOneIsReportedUntilGranted(t *testing.T) {
	h := newHarness(t)
	granted := h.revoke("services")
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.start("4.22.0")
	h.eventually("a condition names the missing API", func() error {
		cluster, err := h.clusterAPI()
		if err != nil {
			return err
		}
		for _, c := range cluster.Status.Conditions {
			if c.Type == "InstallerDegraded" && c.Status != "False" && strings.Contains(c.Message, "services") && strings.Contains(c.Message, "forbidden") {
				return nil
			}
		}
		return errors.New("no condition does")
	})
	t.Logf("without the permission:\n%s", h.conditions())
	h.must(h.Update(t.Context(), granted))
	h.settled("4.22.0-1")
}

// revoke removes the installer's permission to write a core resource in the providers' namespace, and returns the role
// that restores it. The resource stays readable, and no event reports the restored permission.
func (h *harness) revoke(resource string) *rbacv1.Role {
	h.Helper()
	role := &rbacv1.Role{}
	h.must(h.Get(h.Context(), client.ObjectKey{Namespace: namespace, Name: manifests.ProvidersRole}, role))
	granted := role.DeepCopy()
	granted.ResourceVersion = ""
	for i := range role.Rules {
		role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(r string) bool { return r == resource })
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}})
	h.must(h.Update(h.Context(), role))
	h.Cleanup(func() { _ = h.Update(context.Background(), granted) })
	return granted
}

func TestVanillaCluster_ReportsOnClusterAPIAlone(t *testing.T) {
	h := newVanillaHarness(t)
	h.arguments = []string{"--platform=AWS"}
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	h.installedOnce(append(providerObjects("cluster-api", "apicluster"), providerObjects("cluster-api-provider-aws", "awscluster")...))
	h.owned("4.22.0-1")
	if err := h.List(t.Context(), &configv1.ClusterOperatorList{}); !meta.IsNoMatchError(err) {
		t.Errorf("the cluster has ClusterOperators: %v", err)
	}
	h.quiet()
	p.terminate()
}

func TestProgram_InvalidFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		name      string
		arguments []string
		want      []string
	}{
		{"an unknown flag", []string{"--no-such-flag"}, []string{"unknown flag: --no-such-flag"}},
		{"an argument", []string{"install"}, []string{`unknown command "install"`}},
		{"an invalid duration", []string{"--leader-elect-lease-duration=long"}, []string{`"long"`, "--leader-elect-lease-duration"}},
		{"no release version", nil, []string{"--release-version", "RELEASE_VERSION"}},
		{"no kubeconfig", []string{"--release-version=4.22.0", "--kubeconfig=" + missing}, []string{"reading the kubeconfig", missing}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var output bytes.Buffer
			command := exec.Command(binary(t), test.arguments...)
			command.Env, command.Stdout, command.Stderr = []string{"HOME=" + t.TempDir()}, &output, &output
			err := command.Run()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v, want exit code 1", err)
			}
			for _, part := range append(test.want, "capi-installer: ") {
				if !strings.Contains(output.String(), part) {
					t.Errorf("the message does not contain %q: %s", part, &output)
				}
			}
			if lines := strings.Count(output.String(), "\n"); lines != 1 {
				t.Errorf("it prints %d lines, want one:\n%s", lines, &output)
			}
		})
	}
}
