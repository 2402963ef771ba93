// SPDX-License-Identifier: Apache-2.0

//go:build providers && linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// sixteen are the folders of the providers to install, as their projects release them.
var sixteen = []string{
	"core-cluster-api", "bootstrap-kubeadm", "bootstrap-rke2", "control-plane-kubeadm", "control-plane-rke2", "ipam-in-cluster", "addon-helm",
	"infrastructure-aws", "infrastructure-azure", "infrastructure-gcp", "infrastructure-hetzner", "infrastructure-ibmcloud",
	"infrastructure-kubevirt", "infrastructure-linode", "infrastructure-metal3", "infrastructure-vsphere",
}

// releaseSixteen releases all of them. Every infrastructure provider but that of
// AWS is said to be for every platform, so that all are installed.
func (h *harness) releaseSixteen() {
	h.Helper()
	providers, err := fixture.RenderedProviders()
	h.must(err)
	var bundles []extractor.Bundle
	for _, provider := range providers {
		if !slices.Contains(sixteen, provider.Folder) {
			continue
		}
		if provider.Platform != "AWS" {
			provider.Platform = ""
		}
		dir, placeholder := h.TempDir(), "registry.example.com/openshift:"+provider.Name
		h.must(fixture.WriteKustomization(dir, provider.Components))
		bundle, _, err := generate.Bundle(generate.Options{
			Dir: dir, ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version,
			OCPPlatform: provider.Platform, Options: transform.Options{ImageName: placeholder, Images: provider.Pins(placeholder)},
		})
		h.must(err)
		bundles = append(bundles, bundle)
	}
	if len(bundles) != len(sixteen) {
		h.Fatalf("%d providers were found", len(bundles))
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

// fits fails the test if a process has more than 120 MiB resident, or ever had.
func (h *harness) fits(p *process, when string) {
	h.Helper()
	now, highest := p.resident()
	h.Logf("%s: resident %.0f MiB, at most %.0f MiB", when, now, highest)
	if highest > 120 {
		h.Errorf("%s: %.0f MiB were resident, want at most 120", when, highest)
	}
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
		return h.Get(h.Context(), client.ObjectKeyFromObject(account), &corev1.ServiceAccount{})
	})
}

// cost is how long something took and how many requests went through the proxy.
type cost struct {
	seconds  float64
	requests int
}

func (h *harness) measure(do func()) cost {
	began, before := time.Now(), h.requests()
	do()
	return cost{time.Since(began).Seconds(), h.requests() - before}
}

func (h *harness) requests() int {
	sum := 0
	for _, count := range h.proxy.Requests() {
		sum += count
	}
	return sum
}

// manifest writes the objects of a version to a file and returns its path and their number.
func (h *harness) manifest(version string) (path string, objects int) {
	h.Helper()
	configMaps := &corev1.ConfigMapList{}
	h.must(h.List(h.Context(), configMaps, client.InNamespace(v1alpha1.OperatorNamespace)))
	stored, err := revision.FromConfigMaps(version, configMaps.Items)
	h.must(err)
	set, err := stored.Decode()
	h.must(err)
	var out strings.Builder
	for _, operand := range set.Operands {
		for _, object := range operand.Objects {
			text, err := yaml.Marshal(object.Object)
			h.must(err)
			out.WriteString("---\n" + string(text))
			objects++
		}
	}
	path = filepath.Join(h.TempDir(), "objects.yaml")
	h.must(os.WriteFile(path, []byte(out.String()), 0o600))
	return path, objects
}

// kubectl runs kubectl as the installer's service account, through the same proxy.
func (h *harness) kubectl(arguments ...string) {
	h.Helper()
	_, err := h.cluster.Kubectl(context.Background(), append([]string{"--kubeconfig", h.kubeconfig}, arguments...)...)
	h.must(err)
}

// newLoneHarness prepares a new cluster as OpenShift on AWS. No other story runs meanwhile: a
// process that waits for the CPU frees its memory later.
func newLoneHarness(t *testing.T) *harness {
	t.Helper()
	h := connect(t, controlplane.Fresh(t))
	h.prepare()
	return h
}

// TestMemory_SixteenRealProvidersFitInto120MiB is about the program as it runs in a
// cluster, with nothing set in its environment. With E2E=full it also uninstalls all, and
// prints the cost of the installation and of kubectl apply --server-side of the same objects.
func TestMemory_SixteenRealProvidersFitInto120MiB(t *testing.T) {
	h := newLoneHarness(t)
	h.allowAllPods()
	h.releaseSixteen()
	var p *process
	installed := h.measure(func() {
		p = h.start("4.22.0")
		h.within(10*time.Minute, "all providers are installed", func() error { return h.unsettled("4.22.0-1") })
	})
	h.fits(p, "installed")
	p.terminate()
	p = h.start("4.22.0")
	h.looksAtEverything()
	h.fits(p, "restarted")
	p.terminate()
	if full {
		h.compareWithKubectl(installed)
	}
}

// compareWithKubectl uninstalls the version 4.22.0-1, applies its objects with kubectl, and
// prints the cost beside that of the installation.
func (h *harness) compareWithKubectl(installed cost) {
	h.Helper()
	file, objects := h.manifest("4.22.0-1")
	h.uninstall()
	h.allowAllPods()
	kubectl := h.measure(func() {
		h.kubectl("apply", "--server-side", "-f", file)
		h.kubectl("wait", "deployments", "--all", "--namespace", namespace, "--for=condition=Available", "--timeout=10m")
	})
	h.Logf("%d objects: installed in %.0f s with %d requests; kubectl apply --server-side and wait take %.0f s and %d requests",
		objects, installed.seconds, installed.requests, kubectl.seconds, kubectl.requests)
}
