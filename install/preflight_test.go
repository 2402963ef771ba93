// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

const requirementKind = "apiextensions.openshift.io/v1alpha1/CompatibilityRequirement"

// unmanaged sets spec.unmanagedCRDs.
func (h *harness) unmanaged(names ...string) {
	h.Helper()
	h.setSpec(func(spec *v1alpha1.ClusterAPISpec) { spec.UnmanagedCRDs = names })
}

// answer plays the cluster's CRD compatibility checker for the requirement of a
// revision. It waits for the requirement.
func (h *harness) answer(crd string, revision int, admitted, compatible, message string) {
	h.Helper()
	name := fmt.Sprintf("%s-%d", crd, revision)
	h.eventually("CompatibilityRequirement "+name+" is answered", func() error {
		requirement := h.object(requirementKind, "", name)
		if requirement == nil {
			return fmt.Errorf("not found")
		}
		var conditions []any
		for kind, status := range map[string]string{"Admitted": admitted, "Compatible": compatible, "Progressing": "False"} {
			conditions = append(conditions, map[string]any{
				"type": kind, "status": status, "reason": "Tested", "message": message,
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": requirement.GetGeneration(),
			})
		}
		h.must(unstructured.SetNestedSlice(requirement.Object, conditions, "status", "conditions"))
		h.must(unstructured.SetNestedField(requirement.Object, crd, "status", "crdName"))
		return h.Status().Update(h.Context(), requirement)
	})
}

// waits waits until a version's entry in the status has a waitingFor with a message that
// contains every part.
func (h *harness) waits(version string, parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("version %s waits for %q", version, parts), func() error {
		var found []string
		for _, v := range h.clusterAPI().Status.Versions {
			for _, phase := range v.Phases {
				for _, object := range phase.WaitingFor {
					if v.Name == version {
						found = append(found, object.Object+": "+object.Message)
					}
				}
			}
		}
		all := strings.Join(found, "; ")
		for _, part := range parts {
			if !strings.Contains(all, part) {
				return fmt.Errorf("the version waits for %s", all)
			}
		}
		return nil
	})
}

// ownershipMetadata returns the metadata that makes an object belong to the installer.
func ownershipMetadata(object *unstructured.Unstructured) []string {
	var found []string
	for key := range object.GetLabels() {
		if key == "app.kubernetes.io/managed-by" {
			found = append(found, key)
		}
	}
	for key := range object.GetAnnotations() {
		if strings.HasPrefix(key, v1alpha1.Prefix) {
			found = append(found, key)
		}
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == v1alpha1.FieldOwner {
			found = append(found, "fields")
		}
	}
	return found
}

func TestUnmanagedCRD_ReleasedAndAdoptedIfCompatible(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))
	ours := h.object(crdKind, "", machines)
	machine := h.machine()

	h.unmanaged(machines)
	h.reports("InstallerProgressing", "RollingOut", "4.22.0-2", "phase preflight", machines+"-2")
	h.waits("4.22.0-2", "CompatibilityRequirement "+machines+"-2", "not yet Admitted", "compatibility checker")
	released := h.object(crdKind, "", machines)
	if found := ownershipMetadata(released); found != nil || released.GetUID() != ours.GetUID() || released.GetGeneration() != ours.GetGeneration() {
		t.Errorf("the CRD was not released unchanged: %v", found)
	}
	theirs := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": machines},
		"spec":     map[string]any{"group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced", "names": map[string]any{"kind": "Machine", "plural": "machines", "shortNames": []any{"theirs"}}},
	}})
	h.must(h.Apply(t.Context(), theirs, client.FieldOwner("external"))) // without force: no other manager owns a field
	h.answer(machines, 2, "True", "True", "it is")
	h.settled("4.22.0-2")
	h.unchanged(machine, "theirs")

	h.unmanaged()
	h.answer(machines, 2, "True", "False", "spec.names.shortNames differs")
	h.reports("InstallerDegraded", "Incompatible", "CustomResourceDefinition "+machines+" is not adopted", "spec.names.shortNames differs", machines+"-2")
	h.unchanged(machine, "theirs")

	h.answer(machines, 2, "True", "True", "it is again")
	h.settled("4.22.0-3")
	if taken := h.object(crdKind, "", machines); taken.GetUID() != ours.GetUID() || len(ownershipMetadata(taken)) == 0 {
		t.Error("the CRD is not adopted")
	}
	if left := h.object(requirementKind, "", machines+"-2"); left != nil {
		t.Error("the requirement of the previous version remains")
	}
	h.must(h.Get(t.Context(), client.ObjectKeyFromObject(machine), machine))
}

// unchanged fails the test unless the unmanaged CRD of an instance still has the
// changes of its owner.
func (h *harness) unchanged(instance client.Object, shortName string) {
	h.Helper()
	h.must(h.Get(h.Context(), client.ObjectKeyFromObject(instance), instance))
	crd := h.object(crdKind, "", machines)
	names, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
	if found := ownershipMetadata(crd); found != nil || len(names) != 1 || names[0] != shortName {
		h.Errorf("the CRD has our metadata %v and the short names %v", found, names)
	}
}

const foreignCRD = "foreign.infrastructure.cluster.x-k8s.io"

// externalCRD creates a CRD of another owner.
func (h *harness) externalCRD() *unstructured.Unstructured {
	h.Helper()
	return h.createCRD(crd("foreign", "Foreign"))
}

// createCRD creates the CRD of another owner from a manifest.
func (h *harness) createCRD(manifest string) *unstructured.Unstructured {
	h.Helper()
	foreign := &unstructured.Unstructured{}
	h.must(decode(manifest, foreign))
	h.must(h.Create(h.Context(), foreign))
	h.Cleanup(func() { _ = h.Delete(context.Background(), foreign) })
	return foreign
}

func TestPreflight_IncompatibleReleaseDoesNotStart(t *testing.T) {
	h := newHarness(t)
	foreign := h.externalCRD()
	h.unmanaged(foreignCRD)
	h.release(core(configMap("settings", "1")), aws(crd("foreign", "Foreign")))
	h.start("4.22.0")
	h.answer(foreignCRD, 1, "True", "True", "it is")
	h.settled("4.22.0-1")

	h.release(core(configMap("settings", "2")), aws(crd("foreign", "Foreign"), configMap("new", "")))
	h.waits("4.22.0-2", foreignCRD+"-2", "not yet Admitted")
	h.answer(foreignCRD, 2, "True", "False", "the field spec.x is missing")
	h.reports("InstallerDegraded", "Incompatible", "CustomResourceDefinition "+foreignCRD, "Tested: the field spec.x is missing")
	if s := h.clusterAPI().Status; s.CurrentVersion != "4.22.0-1" || !meta.IsStatusConditionTrue(s.Conditions, "Available") {
		t.Errorf("the previous version is not available:\n%s", h.conditions())
	}
	protection := h.object(requirementKind, "", foreignCRD+"-1")
	h.must(h.Delete(t.Context(), protection))
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, "settings")))
	h.eventually("the running version and its protection are restored", func() error {
		again, settings := h.object(requirementKind, "", foreignCRD+"-1"), h.object("v1/ConfigMap", namespace, "settings")
		if again == nil || again.GetUID() == protection.GetUID() || settings == nil {
			return fmt.Errorf("requirement %v, ConfigMap %v", again != nil, settings != nil)
		}
		return nil
	})
	if h.object("v1/ConfigMap", namespace, "new") != nil {
		t.Error("a phase after preflight has begun")
	}
	h.answer(foreignCRD, 2, "True", "True", "it is now") // and no other change
	h.settled("4.22.0-2")
	if h.object(requirementKind, "", foreignCRD+"-1") != nil {
		t.Error("the requirement of the previous version remains")
	}
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.clusterAPIGone()
	h.must(h.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	if found := ownershipMetadata(foreign); found != nil || foreign.GetGeneration() != 1 {
		t.Errorf("the CRD has generation %d and our metadata %v", foreign.GetGeneration(), found)
	}
}

// withoutChecker removes the API of OpenShift's CRD compatibility checker for this test.
func (h *harness) withoutChecker() {
	h.Helper()
	checker := h.object(crdKind, "", requirementsCRD)
	h.must(h.Delete(h.Context(), checker))
	h.Cleanup(h.reapplyChecker)
	h.disappears(crdKind, "", requirementsCRD)
}

func (h *harness) reapplyChecker() {
	h.Helper()
	_, err := fixture.Preparation{}.Apply(context.Background(), h.Cluster.Config)
	h.must(err)
}

const requirementsCRD = "compatibilityrequirements.apiextensions.openshift.io"

// strictCRD is the manifest of the external CRD with the properties of its only version.
func strictCRD(version, properties string) string {
	manifest := strings.Replace(crd("foreign", "Foreign"), "name: v1beta1", "name: "+version, 1)
	return strings.Replace(manifest, "x-kubernetes-preserve-unknown-fields: true", "properties: "+properties, 1)
}

// replaceCRD replaces the spec of the external CRD, as its owner does.
func (h *harness) replaceCRD(manifest string) {
	h.Helper()
	theirs := &unstructured.Unstructured{}
	h.must(decode(manifest, theirs))
	h.eventually("the external CRD is written", func() error {
		actual := h.object(crdKind, "", foreignCRD)
		actual.Object["spec"] = theirs.Object["spec"]
		return h.Update(h.Context(), actual)
	})
}

// crdReads counts the installer's reads of a whole CRD past its cache.
func (h *harness) crdReads(name string) *atomic.Int64 {
	reads := &atomic.Int64{}
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		whole := !strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata")
		if request.Method == http.MethodGet && whole && strings.HasSuffix(request.URL.Path, "/customresourcedefinitions/"+name) {
			reads.Add(1)
		}
		return nil
	}))
	return reads
}

func TestUnmanagedCRD_CheckedByInstaller(t *testing.T) {
	h := newHarness(t)
	h.withoutChecker()
	compatible := strictCRD("v1beta1", "{a: {type: string}, mode: {type: string, enum: [p, q]}}")
	foreign := h.createCRD(strictCRD("v1alpha1", "{a: {type: string}}"))
	h.unmanaged(foreignCRD)
	h.release(core(configMap("settings-0", "1"), configMap("settings-1", "1"), configMap("settings-2", "1"), configMap("settings-3", "1")), aws(compatible))
	h.start("4.22.0")
	h.reports("InstallerDegraded", "Incompatible", "CustomResourceDefinition "+foreignCRD+" (checked by the installer)", "version v1beta1 removed")
	h.waits("4.22.0-1", "CustomResourceDefinition "+foreignCRD, "Compatible is False", "checked by the installer")
	if h.object("apps/v1/Deployment", namespace, "capi") != nil {
		t.Error("a later phase has begun")
	}
	h.must(h.Delete(t.Context(), foreign))
	h.waits("4.22.0-1", "Compatible is Unknown", "does not exist")
	h.createCRD(compatible)
	h.settled("4.22.0-1")
	h.reports("InstallerProgressing", "AsExpected", "unmanaged CRDs are compatible: "+foreignCRD+" (checked by the installer)")

	reads := h.crdReads(foreignCRD)
	for i, c := range []struct{ name, manifest, message string }{
		{"version not served", strings.Replace(compatible, "served: true", "served: false", 1), "version v1beta1 is no longer served"},
		{"missing field", strictCRD("v1beta1", "{mode: {type: string, enum: [p, q]}}"), "v1beta1 a: field removed"},
		{"changed type", strictCRD("v1beta1", "{a: {type: integer}, mode: {type: string, enum: [p, q]}}"), "v1beta1 a: type changed"},
		{"narrower enum", strictCRD("v1beta1", "{a: {type: string}, mode: {type: string, enum: [p]}}"), "v1beta1 mode: fewer values are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer h.reportTo(t)()
			settings := fmt.Sprintf("settings-%d", i) // one that was not reverted before: repeated deletions are contested
			h.replaceCRD(c.manifest)
			h.reports("InstallerDegraded", "Incompatible", foreignCRD, c.message)
			h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, settings)))
			h.appears("v1/ConfigMap", namespace, settings)
			if !meta.IsStatusConditionTrue(h.clusterAPI().Status.Conditions, "Available") {
				t.Errorf("not available:\n%s", h.conditions())
			}
			h.replaceCRD(compatible)
			h.settled("4.22.0-1")
		})
	}
	read := reads.Load()
	h.reconcileTimes(2)
	h.expectQuiet(func() { h.reconcileTimes(3) })
	if more := reads.Load() - read; more != 0 {
		t.Errorf("the unchanged CRD was read %d times", more)
	}
	if found := ownershipMetadata(h.object(crdKind, "", foreignCRD)); found != nil {
		t.Errorf("the CRD has our metadata: %v", found)
	}
}

func TestUnmanagedCRD_CheckerAppearsAndDisappears(t *testing.T) {
	h := newHarness(t)
	h.withoutChecker()
	h.unmanaged(foreignCRD)
	h.release(core(), aws(crd("foreign", "Foreign")))
	h.start("4.22.0")
	h.reports("InstallerProgressing", "RollingOut", "phase preflight 0/1", foreignCRD)
	h.waits("4.22.0-1", "does not exist", "checked by the installer")
	h.externalCRD() // and no other change
	h.settled("4.22.0-1")
	h.reports("InstallerProgressing", "AsExpected", foreignCRD+" (checked by the installer)")

	h.reapplyChecker()
	h.answer(foreignCRD, 1, "True", "True", "it is")
	h.reports("InstallerProgressing", "AsExpected", foreignCRD+" (checked by OpenShift, CompatibilityRequirement "+foreignCRD+"-1)")
	h.settled("4.22.0-1")

	h.withoutChecker()
	h.reports("InstallerProgressing", "AsExpected", foreignCRD+" (checked by the installer)")
	h.settled("4.22.0-1")
}

// TestUnmanagedCRD_ManagedAgainAtOnce: the cluster serves the API of OpenShift's checker, and nothing answers.
func TestUnmanagedCRD_ManagedAgainAtOnce(t *testing.T) {
	h := newHarness(t)
	h.installRelease(core(), aws(crd("foreign", "Foreign")))
	h.unmanaged(foreignCRD)
	h.eventually("the CRD is released", func() error {
		if found := ownershipMetadata(h.object(crdKind, "", foreignCRD)); found != nil || h.clusterAPI().Status.DesiredVersion != "4.22.0-2" {
			return fmt.Errorf("version %s, metadata %v", h.clusterAPI().Status.DesiredVersion, found)
		}
		return nil
	})
	h.unmanaged()
	h.settled("4.22.0-3")
	if len(ownershipMetadata(h.object(crdKind, "", foreignCRD))) == 0 {
		t.Error("the CRD is not managed")
	}
	if events := h.events("DriftCorrected"); events != nil {
		t.Errorf("the change of the spec is reported as drift: %q", events)
	}
}
