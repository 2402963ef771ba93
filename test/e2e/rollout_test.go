// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// providerObjects returns the names of the objects of a synthetic provider.
func providerObjects(name, kind string) []string {
	return []string{
		"ClusterRole " + name + "-manager", "ClusterRoleBinding " + name + "-manager", "ConfigMap " + name + "-config",
		"CustomResourceDefinition " + kind + "s.infrastructure.cluster.x-k8s.io", "Deployment " + name + "-controller-manager",
		"Role " + name + "-leader-election", "RoleBinding " + name + "-leader-election", "Service " + name + "-metrics", "ServiceAccount " + name + "-manager",
	}
}

// installedOnce fails the test unless these objects are installed, each was written once, and one version was created.
func (h *harness) installedOnce(want []string) {
	h.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, h.names()); diff != "" {
		h.Errorf("installed (-want +got):\n%s", diff)
	}
	for name, object := range h.installed() {
		if object.GetGeneration() > 1 {
			h.Errorf("%s was changed after its creation: generation %d", name, object.GetGeneration())
		}
	}
	versions := &corev1.ConfigMapList{}
	h.must(h.List(h.Context(), versions, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel}))
	if len(versions.Items) != 1 {
		h.Errorf("%d revision ConfigMaps, want one", len(versions.Items))
	}
}

// quiet fails the test unless writes stop.
func (h *harness) quiet() {
	h.Helper()
	before := h.Proxy.Writes()
	h.eventually("there are no writes for 2 s", func() error {
		time.Sleep(2 * time.Second)
		now := h.Proxy.Writes()
		if now == before {
			return nil
		}
		before = now
		return errors.New("there are writes")
	})
}

func TestProgram_SIGTERMWhileAPIServerIsDown(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.startUntilDown("4.22.0", "--leader-elect")
	time.Sleep(15 * time.Second) // after that, watches are retried with long pauses only
	p.terminate()
}

// startUntilDown starts a program, and returns when a phase is complete and the API server is down.
func (h *harness) startUntilDown(release string, arguments ...string) *process {
	h.Helper()
	down := make(chan error, 1)
	var once sync.Once
	p := h.startWatched(release, func(_ *process, l line) {
		if l.Message == "Phase complete" {
			once.Do(func() { down <- h.Proxy.Down() })
		}
	}, arguments...)
	select {
	case err := <-down:
		h.must(err)
	case <-time.After(patience):
		h.Fatalf("no phase has completed:\n%s", h.conditions())
	}
	return p
}

func TestProgram_WaitsForTheAPIServerAtStart(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.must(h.Proxy.Down())
	h.startWaiting("4.22.0").terminate()
	p := h.startWaiting("4.22.0")
	if full {
		time.Sleep(150 * time.Second)
	}
	if !p.Runs() {
		t.Fatalf("capi-installer has ended: %v", p.Err)
	}
	h.must(h.Proxy.Up())
	h.settled("4.22.0-1")
}

// startWaiting starts a program, and returns when it waits for the API server.
func (h *harness) startWaiting(release string) *process {
	h.Helper()
	p := h.start(release)
	h.eventually("the program waits for the API server", func() error {
		if !p.logged("Waiting for the API server") {
			return errors.New("not in the log")
		}
		return nil
	})
	return p
}
