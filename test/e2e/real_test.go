// SPDX-License-Identifier: Apache-2.0

//go:build providers && linux

package e2e

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// releaseSixteen releases sixteen real providers, and returns their bundles. A cluster on AWS installs all of them.
func (h *harness) releaseSixteen() []extractor.Bundle {
	h.Helper()
	all, err := bundles.Sixteen(h.TempDir())
	h.must(err)
	if len(all) == 0 {
		h.Fatal("PROVIDERS is not set")
	}
	h.releaseBundles(all...)
	return all
}

// fits fails the test if the resident memory of a process is, or ever was, more than memoryLimit.
func (h *harness) fits(p *process, when string) {
	h.Helper()
	now, highest := p.resident()
	h.Logf("%s: resident memory %.0f MiB, maximum %.0f MiB", when, now, highest)
	if highest > memoryLimit {
		h.Errorf("%s: resident memory of %.0f MiB, want at most %d", when, highest, memoryLimit)
	}
}

// looksAtEverything waits until a process has processed every object: until it has recreated a deleted one.
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
	h.within(5*time.Minute, "ServiceAccount "+account.Name+" is recreated", func() error {
		return h.Get(h.Context(), client.ObjectKeyFromObject(account), &corev1.ServiceAccount{})
	})
}

// revertedOnly fails the test if an event reports the reverted change of an object of another kind.
func (h *harness) revertedOnly(kind string) {
	h.Helper()
	reverted := regexp.MustCompile(`(\S+) \S+ \((?:modified|deleted)\)`)
	h.eventually("a reverted change is reported", func() error {
		events, err := h.events("DriftCorrected")
		changes := reverted.FindAllStringSubmatch(strings.Join(events, "\n"), -1)
		if err == nil && len(changes) == 0 {
			err = errors.New("no event does")
		}
		for _, match := range changes {
			if match[1] != kind {
				h.Errorf("events: %q, which name an object that was not changed", events)
			}
		}
		return err
	})
}

// newLoneHarness prepares a new cluster as OpenShift on AWS, for a story that measures memory. No
// other story runs meanwhile: a process that waits for the CPU frees its memory later.
func newLoneHarness(t *testing.T) *harness {
	t.Helper()
	h := connect(t, controlplane.Fresh(t))
	h.memory = []string{"GOMEMLIMIT=200MiB"}
	h.prepare()
	return h
}

// TestMemory_SixteenRealProvidersFit is about the program as it runs in a cluster, with the environment of the manifests. `make bench` measures it beside kubectl.
func TestMemory_SixteenRealProvidersFit(t *testing.T) {
	h := newLoneHarness(t)
	h.must(h.AllowAllPods(h.Context()))
	all := h.releaseSixteen()
	p := h.start("4.22.0")
	h.within(10*time.Minute, "all providers are installed", func() error { return h.unsettled("4.22.0-1") })
	h.fits(p, "installed")
	p.terminate()
	for i := range all {
		all[i].Metadata.ProviderVersion += "-changed"
	}
	h.releaseBundles(all...)
	p = h.start("4.22.1")
	h.within(10*time.Minute, "all providers are upgraded", func() error { return h.unsettled("4.22.1-2") })
	h.fits(p, "upgraded")
	p.terminate()
	p = h.start("4.22.1")
	h.looksAtEverything()
	h.fits(p, "restarted")
	h.revertedOnly("ServiceAccount")
	p.terminate()
}
