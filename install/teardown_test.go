// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// hold puts a finalizer on an object; the function that it returns takes it off again.
func (h *harness) hold(kind, namespace, name string) (let func()) {
	h.Helper()
	write := func(finalizers []string) {
		h.eventually("the finalizer on "+name+" is written", func() error {
			object := h.object(kind, namespace, name)
			if object == nil || len(object.GetFinalizers()) == len(finalizers) {
				return nil
			}
			object.SetFinalizers(finalizers)
			return h.Update(context.Background(), object)
		})
	}
	write([]string{"test.example.com/hold"})
	h.Cleanup(func() { write(nil) })
	return func() { write(nil) }
}

func TestWhatAnOldVersionsRemovalWaitsForIsNamedAndTheRestGoes(t *testing.T) {
	h := newHarness(t)
	h.release(core(configMap("stuck", ""), configMap("free", "")), aws(configMap("later", "")))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	let := h.hold("v1/ConfigMap", namespace, "stuck")
	h.release(core(), aws())
	h.reports("InstallerProgressing", "TearingDown", "removing version 4.22.0-1", "ConfigMap openshift-cluster-api/stuck (deleted at 20", "held by finalizer test.example.com/hold")
	for _, name := range []string{"free", "later"} {
		if h.object("v1/ConfigMap", namespace, name) != nil {
			t.Errorf("ConfigMap %s is still there", name)
		}
	}
	if s := h.clusterAPI().Status; s.CurrentVersion != "4.22.0-2" {
		t.Errorf("the new version is not current:\n%s", h.conditions())
	}
	let()
	h.settled("4.22.0-2")
	if h.object("v1/ConfigMap", namespace, "stuck") != nil {
		t.Error("ConfigMap stuck is left")
	}
}

func TestUninstallingGoesBackwardsNeedsNoImagesAndTellsWhatItKeeps(t *testing.T) {
	h := newHarness(t)
	h.release(core(configMap("first", ""), crd("unused", "Unused")), aws(configMap("last", ""), crd("machines", "Machine")))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	machine := h.machine()
	let := h.hold("v1/ConfigMap", namespace, "last")
	h.registry.Close()
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.eventually("the last phase is gone but for what is held", func() error {
		if h.object("apps/v1/Deployment", namespace, "capa") != nil {
			return fmt.Errorf("Deployment capa is there")
		}
		return nil
	})
	h.logged("Removing a version", "ConfigMap openshift-cluster-api/last (deleted at 20", "test.example.com/hold")
	if h.object("apps/v1/Deployment", namespace, "capi") == nil || h.object(crdKind, "", "unused.infrastructure.cluster.x-k8s.io") == nil {
		t.Error("a phase before the one that is held has gone")
	}
	let()
	h.eventually("the version is gone", func() error {
		if h.object("v1/ConfigMap", v1alpha1.OperatorNamespace, "4.22.0-1") != nil {
			return fmt.Errorf("its ConfigMap is there: %v", h.names())
		}
		return nil
	})
	if names := h.names(); len(names) > 0 {
		t.Errorf("left as installed: %v", names)
	}
	h.logged("Kept a CRD", machines, "it has instances, such as Machine openshift-cluster-api/one")
	h.logged("CRDsKept", "version 4.22.0-1 is being removed; these CRDs stay: "+machines)
	h.eventually("an event tells what is kept", func() error {
		events := &corev1.EventList{}
		h.must(h.List(t.Context(), events, client.InNamespace(metav1.NamespaceDefault)))
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == "CRDsKept" && strings.Contains(e.Message, machines) }) {
			return fmt.Errorf("none of %d does", len(events.Items))
		}
		return nil
	})
	kept := h.object(crdKind, "", machines)
	if kept == nil || kept.GetDeletionTimestamp() != nil {
		t.Fatal("the CRD with an instance is gone")
	}
	h.must(h.Get(t.Context(), key(machine), machine))
	if h.object(crdKind, "", "unused.infrastructure.cluster.x-k8s.io") != nil {
		t.Error("the CRD without instances is left")
	}
}

func TestAnUnmanagedCRDOutlivesAnUninstallThatComesBeforeItIsReleased(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws(crd("machines", "Machine")))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.stop()
	h.unmanaged(machines)
	h.must(h.Delete(t.Context(), h.clusterAPI(), foreground))
	h.start("4.22.0")
	h.eventually("the rest is uninstalled", func() error {
		if names := h.names(); len(names) > 0 {
			return fmt.Errorf("left: %v", names)
		}
		return nil
	})
	left := h.object(crdKind, "", machines)
	if left == nil || left.GetDeletionTimestamp() != nil {
		t.Fatal("the unmanaged CRD is gone")
	}
	if found := marks(left); found != nil {
		t.Errorf("it has our marks: %v", found)
	}
	h.must(h.Delete(t.Context(), left))
}

// logged waits until the installer has logged a line that holds every part.
func (h *harness) logged(parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("a line of the log has %q", parts), func() error {
		lines := h.log.lines()
		if !slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		}) {
			return fmt.Errorf("none of %d has", len(lines))
		}
		return nil
	})
}
