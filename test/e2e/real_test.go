// SPDX-License-Identifier: Apache-2.0

//go:build providers && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

// realProviders are sixteen providers as their projects release them, in the
// folder PROVIDERS: one folder each, with components.yaml, what kustomize makes of
// them, and facts.json.
var realProviders = []string{
	"core-cluster-api", "bootstrap-kubeadm", "bootstrap-rke2", "control-plane-kubeadm", "control-plane-rke2", "ipam-in-cluster", "addon-helm",
	"infrastructure-aws", "infrastructure-azure", "infrastructure-gcp", "infrastructure-hetzner", "infrastructure-ibmcloud",
	"infrastructure-kubevirt", "infrastructure-linode", "infrastructure-metal3", "infrastructure-vsphere",
}

// realBundle makes a bundle of a provider. Every infrastructure provider but that
// of AWS is for every platform, so that all of them are installed.
func (h *harness) realBundle(folder string) extractor.Bundle {
	h.Helper()
	var facts struct{ Name, Type, Version, Platform, Image string }
	content, err := os.ReadFile(filepath.Join(os.Getenv("PROVIDERS"), folder, "facts.json"))
	h.must(err)
	h.must(json.Unmarshal(content, &facts))
	if facts.Platform != "AWS" {
		facts.Platform = ""
	}
	manifests, err := os.ReadFile(filepath.Join(os.Getenv("PROVIDERS"), folder, "components.yaml"))
	h.must(err)
	dir := h.TempDir()
	h.must(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: [components.yaml]\n"), 0o600))
	h.must(os.WriteFile(filepath.Join(dir, "components.yaml"), manifests, 0o600))
	placeholder := "registry.example.com/openshift:" + facts.Name
	bundle, _, err := build.Generate(build.GenerateOptions{
		Dir: dir, ProviderName: facts.Name, ProviderVersion: facts.Version, OCPPlatform: facts.Platform,
		ProviderType: extractor.ProviderType(strings.ReplaceAll(facts.Type, "-", "")),
		ImageName:    placeholder, Images: map[string]string{facts.Image: placeholder},
	})
	h.must(err)
	return bundle
}

// releaseReal is a release of all sixteen.
func (h *harness) releaseReal() {
	h.Helper()
	var bundles []extractor.Bundle
	for _, folder := range realProviders {
		bundles = append(bundles, h.realBundle(folder))
	}
	h.releaseBundles(bundles...)
}

// allowAllPods has the providers' namespace admit the pods of providers that are
// not made for OpenShift.
func (h *harness) allowAllPods() {
	h.Helper()
	operands := &corev1.Namespace{}
	operands.Name = namespace
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	h.must(h.Patch(h.Context(), operands, patch))
}

// resident is a process's resident memory in MiB, now and at its highest.
func (p *process) resident() (now, highest float64) {
	p.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	of := map[string]float64{}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			of[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
		}
	}
	return of["VmRSS:"] / 1024, of["VmHWM:"] / 1024
}

// looksAtEverything returns when a process has looked after every object: when it
// has put back one that was deleted.
func (h *harness) looksAtEverything() {
	h.Helper()
	account := &corev1.ServiceAccount{}
	account.Namespace = namespace
	for name, object := range h.installed() {
		if strings.HasPrefix(name, "ServiceAccount ") {
			account.Name = object.GetName()
		}
	}
	h.must(h.Delete(h.Context(), account))
	h.within(5*time.Minute, "ServiceAccount "+account.Name+" is back", func() error {
		return h.Get(h.Context(), client.ObjectKeyFromObject(account), account)
	})
}

// TestSixteenRealProvidersFitInto120MiB is about the program as it runs in a
// cluster, with nothing set in its environment.
func TestSixteenRealProvidersFitInto120MiB(t *testing.T) {
	h := newHarness(t)
	h.allowAllPods()
	h.releaseReal()
	started := time.Now()
	p := h.start("4.22.0")
	h.within(10*time.Minute, "all providers are installed", func() error { return h.unsettled("4.22.0-1") })
	now, highest := p.resident()
	t.Logf("%d objects installed in %s; resident %.0f MiB, at most %.0f MiB", len(h.installed()), time.Since(started).Round(time.Second), now, highest)
	if now > 120 {
		t.Errorf("%.0f MiB are resident, want at most 120", now)
	}
	p.terminate()
	p = h.start("4.22.0")
	h.looksAtEverything()
	now, highest = p.resident()
	t.Logf("after a restart: resident %.0f MiB, at most %.0f MiB", now, highest)
	if now > 120 {
		t.Errorf("after a restart %.0f MiB are resident, want at most 120", now)
	}
}
