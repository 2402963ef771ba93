// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// addFinalizer adds a finalizer to an object; the returned function removes it.
func (h *harness) addFinalizer(kind, namespace, name string) (remove func()) {
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

func TestTeardown_NamesTheBlockerAndDeletesTheRest(t *testing.T) {
	h := newInstallation(t, core(configMap("stuck", ""), configMap("free", "")), aws(configMap("later", "")))
	remove := h.addFinalizer("v1/ConfigMap", namespace, "stuck")
	h.release(core(), aws())
	h.reports("InstallerProgressing", "TearingDown", "removing version 4.22.0-1", "ConfigMap openshift-cluster-api/stuck (deleted at 20", "blocked by finalizer test.example.com/hold")
	for _, name := range []string{"free", "later"} {
		if h.object("v1/ConfigMap", namespace, name) != nil {
			t.Errorf("ConfigMap %s still exists", name)
		}
	}
	if s := h.clusterAPI().Status; s.CurrentVersion != "4.22.0-2" {
		t.Errorf("the new version is not current:\n%s", h.conditions())
	}
	remove()
	h.settled("4.22.0-2")
	if h.object("v1/ConfigMap", namespace, "stuck") != nil {
		t.Error("ConfigMap stuck remains")
	}
}

func TestUninstall_LastPhaseFirstWithoutImages(t *testing.T) {
	h := newInstallation(t, core(configMap("first", ""), crd("unused", "Unused")), aws(configMap("last", ""), crd("machines", "Machine")))
	machine := h.machine()
	remove := h.addFinalizer("v1/ConfigMap", namespace, "last")
	h.Registry.Close()
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.disappears(deploymentKind, namespace, "capa")
	h.logged("Removing version", "ConfigMap openshift-cluster-api/last (deleted at 20", "test.example.com/hold")
	if h.object("v1/ConfigMap", namespace, "first") == nil || h.object(crdKind, "", "unused.infrastructure.cluster.x-k8s.io") == nil {
		t.Error("an object of an earlier phase was removed before the last phase was")
	}
	remove()
	h.disappears("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1")
	if names := h.names(); len(names) > 0 {
		t.Errorf("objects still belong to the installer: %v", names)
	}
	h.logged("Retained CRD", machines, "it has instances, such as Machine openshift-cluster-api/one")
	h.logged("CRDsKept", "version 4.22.0-1 is being removed; retained CRDs: "+machines)
	h.eventually("an event names the retained CRD", func() error {
		events := &corev1.EventList{}
		h.must(h.List(t.Context(), events, client.InNamespace(metav1.NamespaceDefault)))
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == "CRDsKept" && strings.Contains(e.Message, machines) }) {
			return fmt.Errorf("none of %d events does", len(events.Items))
		}
		return nil
	})
	kept := h.object(crdKind, "", machines)
	if kept == nil || kept.GetDeletionTimestamp() != nil {
		t.Fatal("the CRD with an instance was deleted")
	}
	h.must(h.Get(t.Context(), key(machine), machine))
	if h.object(crdKind, "", "unused.infrastructure.cluster.x-k8s.io") != nil {
		t.Error("the CRD without instances remains")
	}
}

// The uninstall reads spec.unmanagedCRDs, also if both changes are made at once or while the installer does not run.
func TestUninstall_LeavesUnmanagedCRD(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, running %t", policy, running), func(t *testing.T) { leavesUnmanagedCRD(t, policy, running) })
		}
	}
}

func leavesUnmanagedCRD(t *testing.T, policy metav1.DeletionPropagation, running bool) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))
	if !running {
		h.stop()
	}
	h.unmanaged(machines)
	h.must(h.Delete(t.Context(), h.clusterAPI(), client.PropagationPolicy(policy)))
	if !running {
		h.start("4.22.0")
	}
	h.eventually("all other objects are deleted", h.remaining)
	left := h.object(crdKind, "", machines)
	if left == nil || left.GetDeletionTimestamp() != nil {
		t.Fatal("the unmanaged CRD was deleted")
	}
	if found := ownershipMetadata(left); found != nil {
		t.Errorf("the unmanaged CRD has our metadata: %v", found)
	}
	h.must(h.Delete(t.Context(), left))
}

// An object that a former leader creates after the objects of its version were removed is removed too: the ConfigMap of the version stays as long
// as such a write can arrive.
func TestTeardown_LateWrite(t *testing.T) {
	h := newHarness(t)
	h.lateWrites = 20 * time.Second
	h.installRelease(core(configMap("late", "1")), aws())
	late := h.object("v1/ConfigMap", namespace, "late")
	h.release(core(), aws())
	h.reports("InstallerProgressing", "TearingDown", "removing version 4.22.0-1: waiting for late writes of a former leader")
	if h.object("v1/ConfigMap", namespace, "late") != nil {
		t.Fatal("the ConfigMap was not removed")
	}
	late.SetResourceVersion("")
	late.SetUID("")
	h.must(h.asInstaller().Create(t.Context(), late, client.FieldOwner(v1alpha1.FieldOwner)))
	h.settled("4.22.0-2")
	if h.object("v1/ConfigMap", namespace, "late") != nil {
		t.Error("the ConfigMap of the removed version remains")
	}
}

// asInstaller returns a client with the rights of the installer: an admission policy rejects the marks of the installer from others.
func (h *harness) asInstaller() client.Client {
	h.Helper()
	out, err := client.New(h.config, client.Options{Scheme: h.Scheme()})
	h.must(err)
	return out
}

// logged waits until the installer has logged a line that contains every part.
func (h *harness) logged(parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("the log has a line with %q", parts), func() error {
		lines := h.log.lines()
		if !slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		}) {
			return fmt.Errorf("none of %d lines", len(lines))
		}
		return nil
	})
}

// loggedNone fails the test if the log has a line with a text after the first lines.
func (h *harness) loggedNone(after int, text string) {
	h.Helper()
	for _, line := range h.log.lines()[after:] {
		if strings.Contains(line, text) {
			h.Errorf("logged: %s", line)
		}
	}
}
