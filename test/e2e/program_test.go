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
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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

// succeeded returns an error until another process than the former leader leads.
func (h *harness) succeeded(former string) error {
	if led := h.leader(); led == "" || led == former {
		return fmt.Errorf("%q leads", led)
	}
	return nil
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
