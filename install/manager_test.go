// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/random"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

var namespace = v1alpha1.OpenShiftNamespaces.Operand

// configMap is the manifest of a ConfigMap.
func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {value: %q}\n", name, namespace, value)
}

// deployment is the manifest of a Deployment that runs image.
func deployment(name, image string) string {
	return fixture.Deployment(name, image, "")
}

// crd is the manifest of a CRD of the group test.cluster.x-k8s.io.
func crd(plural, kind string) string {
	return fixture.CRD(plural, kind, "", "v1beta1")
}

// core and aws return the providers that every cluster on AWS needs.
func core(manifests ...string) provider {
	return provider{name: "cluster-api", kind: "core", manifests: append([]string{deployment("capi", placeholder)}, manifests...)}
}

func aws(manifests ...string) provider {
	return provider{name: "cluster-api-provider-aws", kind: "infrastructure", platform: "AWS", manifests: append([]string{deployment("capa", placeholder)}, manifests...)}
}

func TestInstall_ReleaseAndItsSuccessor(t *testing.T) {
	h := newHarness(t)
	azure := provider{name: "cluster-api-provider-azure", kind: "infrastructure", platform: "Azure", manifests: []string{configMap("azure", "")}}
	h.release(core(configMap("kept", "1"), configMap("dropped", "1")), aws(crd("testmachines", "TestMachine")), azure)
	other, err := random.Image(1024, 2)
	h.must(err)
	h.images["other"], err = h.Registry.Push("test/other", other)
	h.must(err)
	h.writeImages()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	want := []string{"ConfigMap dropped", "ConfigMap kept", "CustomResourceDefinition testmachines.infrastructure.cluster.x-k8s.io", "Deployment capa", "Deployment capi"}
	if diff := cmp.Diff(want, h.names()); diff != "" {
		t.Errorf("installed (-want +got):\n%s", diff)
	}
	image, _, _ := unstructured.NestedSlice(h.object("apps/v1/Deployment", namespace, "capa").Object, "spec", "template", "spec", "containers")
	if got := image[0].(map[string]any)["image"]; got != h.images["cluster-api-provider-aws"] {
		t.Errorf("Deployment capa runs %v, want the image that contains its manifests", got)
	}

	before := h.installed()
	available := meta.FindStatusCondition(h.clusterAPI().Status.Conditions, "Available")
	time.Sleep(time.Second) // transition times have no fractions
	h.stop()
	h.release(core(configMap("kept", "1"), configMap("added", "1")), aws(crd("testmachines", "TestMachine")), azure)
	h.start("4.22.1")
	h.settled("4.22.1-2")
	if now := meta.FindStatusCondition(h.clusterAPI().Status.Conditions, "Available"); !now.LastTransitionTime.Equal(&available.LastTransitionTime) {
		t.Error("Available was not True throughout the upgrade")
	}
	after := h.installed()
	if _, there := after["ConfigMap dropped"]; there {
		t.Error("ConfigMap dropped still exists")
	}
	if _, there := after["ConfigMap added"]; !there {
		t.Error("ConfigMap added not found")
	}
	for _, name := range []string{"ConfigMap kept", "Deployment capa", "CustomResourceDefinition testmachines.infrastructure.cluster.x-k8s.io"} {
		if before[name] != after[name] {
			t.Errorf("%s changed: %s before, %s after", name, before[name], after[name])
		}
	}
}

// badInputs are releases that cannot be installed, each with the reason of the
// condition and the parts of its message.
var badInputs = []struct {
	name   string
	spoil  func(h *harness)
	reason string
	names  []string
}{
	{"images.json is not JSON", func(h *harness) { h.write("{\n  \"a\": \n}") }, "ImagesInvalid", []string{"images.json", "3:1"}},
	{"images.json is gone", func(h *harness) { h.must(os.Remove(h.ImagesJSON)) }, "ImagesInvalid", []string{"images.json", "no such file"}},
	{"an image by tag", func(h *harness) {
		h.images["cluster-api"] = "quay.io/openshift/capi:latest"
		h.writeImages()
	}, "ImagesInvalid", []string{"cluster-api", "quay.io/openshift/capi:latest", "digest"}},
	{"half a bundle", func(h *harness) {
		half := aws()
		half.edit = func(files map[string][]byte) { delete(files, "capi-manifests/manifests.yaml") }
		h.release(core(), half)
	}, "BundleInvalid", []string{"cluster-api-provider-aws", "manifests.yaml"}},
	{"a content ID of other manifests", func(h *harness) {
		wrong := aws()
		wrong.edit = func(files map[string][]byte) {
			files["capi-manifests/manifests.yaml"] = append(files["capi-manifests/manifests.yaml"], "# changed\n"...)
		}
		h.release(core(), wrong)
	}, "BundleInvalid", []string{"cluster-api-provider-aws", "contentID"}},
	{"no infrastructure provider for the platform", func(h *harness) {
		other := aws()
		other.platform = "GCP"
		h.release(core(), other)
	}, "ComponentMissing", []string{"infrastructure", "AWS", "GCP"}},
	{"no core provider", func(h *harness) { h.release(aws()) }, "ComponentMissing", []string{"core"}},
	{"YAML that does not parse", func(h *harness) { h.release(core(), aws("a: b: c\n")) }, "RenderFailed", []string{"cluster-api-provider-aws", "line"}},
	{"one provider twice", func(h *harness) {
		h.images["again"] = h.push(aws(configMap("again", "")))
		h.writeImages()
	}, "ComponentMissing", []string{"cluster-api-provider-aws", "is defined by both", "again"}},
	{"an unreplaced placeholder", func(h *harness) {
		h.release(core(), aws(deployment("second", "registry.ci.openshift.org/openshift:other-controllers")))
	}, "RenderFailed", []string{"Deployment", "second", "registry.ci.openshift.org/openshift:other-controllers"}},
	{"an empty images.json", func(h *harness) { h.write("{}") }, "ComponentMissing", []string{"core", "infrastructure"}},
}

func TestInputs_InvalidInputIsNamedAndChangesNothing(t *testing.T) {
	h := newHarness(t)
	good := func() { h.release(core(configMap("settings", "1")), aws(crd("staying", "Staying"))) }
	good()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	before := h.installed()
	for _, test := range badInputs {
		t.Run(test.name, func(t *testing.T) {
			defer h.reportTo(t)()
			test.spoil(h)
			h.reports("VersionDegraded", test.reason, test.names...)
			h.reports("Degraded", "Version"+test.reason)
			h.unchangedSince(before)
			if !meta.IsStatusConditionTrue(h.clusterAPI().Status.Conditions, "Available") {
				t.Error("all objects are installed, but Available is not True")
			}
			good()
			h.settled("4.22.0-1")
			h.unchangedSince(before)
		})
	}
}

// unchangedSince fails the test unless all installed objects are as before.
func (h *harness) unchangedSince(before map[string]string) {
	h.Helper()
	if diff := cmp.Diff(before, h.installed()); diff != "" {
		h.Errorf("installed objects changed (-before +after):\n%s", diff)
	}
}

func TestRegistry_UnreachableIsRetriedBeforeDegraded(t *testing.T) {
	h := newInstallation(t, core(), aws())
	before := h.installed()
	good := h.images["cluster-api"]
	_, digest, _ := strings.Cut(good, "@")
	h.images["cluster-api"] = "127.0.0.1:1/capi@" + strings.Replace(digest, digest[len(digest)-4:], "0000", 1)
	h.writeImages()
	h.reports("VersionDegraded", "ImageUnreadable", "cluster-api", "127.0.0.1:1")
	if c := meta.FindStatusCondition(h.clusterAPI().Status.Conditions, "VersionDegraded"); c.Status != metav1.ConditionUnknown {
		t.Errorf("VersionDegraded is %s, want Unknown", c.Status)
	}
	h.unchangedSince(before)
	h.images["cluster-api"] = good
	h.writeImages()
	h.settled("4.22.0-1")
	h.unchangedSince(before)
}

func TestRestart_NeedsNoRegistry(t *testing.T) {
	h := newInstallation(t, core(), aws())
	h.stop()
	h.Registry.Close()
	h.must(h.Delete(t.Context(), h.object("apps/v1/Deployment", namespace, "capa")))
	h.start("4.22.0")
	h.appears(deploymentKind, namespace, "capa")
	h.settled("4.22.0-1")
}

const (
	crdKind  = "apiextensions.k8s.io/v1/CustomResourceDefinition"
	machines = "machines.infrastructure.cluster.x-k8s.io"
)

// machine creates an instance of the CRD machines. At the end of the test, it deletes
// the instance, and the CRD if it was retained.
func (h *harness) machine() *unstructured.Unstructured {
	h.Helper()
	machine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Machine",
		"metadata": map[string]any{"name": "one", "namespace": namespace},
	}}
	h.must(h.Create(h.Context(), machine))
	h.Cleanup(func() {
		h.must(h.Delete(context.Background(), machine))
		if left := h.object(crdKind, "", machines); left.GetAnnotations()[v1alpha1.OwnersAnnotation] == "" {
			h.must(h.Delete(context.Background(), left))
		}
	})
	return machine
}

// deleteBinding disables an admission policy. The harness of the next test applies it again.
func (h *harness) deleteBinding(name string) {
	h.Helper()
	binding := &unstructured.Unstructured{}
	binding.SetGroupVersionKind(parseKind("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding"))
	binding.SetName(name)
	h.must(h.Delete(h.Context(), binding))
}

func TestRetainedCRD_OutlivesItsRelease(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine"), crd("unused", "Unused")))
	machine := h.machine()
	h.release(core(), aws())
	h.settled("4.22.0-2")
	if h.object(crdKind, "", "unused.infrastructure.cluster.x-k8s.io") != nil {
		t.Error("the CRD without instances still exists")
	}
	kept := h.object(crdKind, "", machines)
	if kept == nil || kept.GetDeletionTimestamp() != nil {
		t.Fatal("the CRD with an instance was deleted")
	}
	if owners, found := kept.GetAnnotations()[v1alpha1.OwnersAnnotation]; found {
		t.Errorf("the retained CRD still has the owners %s", owners)
	}
	h.must(h.Get(t.Context(), client.ObjectKeyFromObject(machine), machine))

	h.release(core(), aws(crd("machines", "Machine")))
	h.settled("4.22.0-3")
	if taken := h.object(crdKind, "", machines); taken.GetUID() != kept.GetUID() || taken.GetAnnotations()[v1alpha1.OwnersAnnotation] == "" {
		t.Error("the release that contains the CRD again has not adopted it")
	}
}

func TestRetainedCRD_WithoutItsLabel(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))
	h.machine()
	h.stop()
	h.deleteBinding("openshift-capi-installer-marks")
	h.eventually("the label can be removed", func() error {
		unlabelled := h.object(crdKind, "", machines)
		unlabelled.SetLabels(nil)
		return h.Update(t.Context(), unlabelled)
	})
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.start("4.22.0") // uninstalls all objects, without a repair first
	h.disappears("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1")
	if kept := h.object(crdKind, "", machines); kept == nil || kept.GetDeletionTimestamp() != nil {
		t.Fatal("the CRD with an instance was deleted")
	}
}

func TestRevisionConfigMap_RecreatedAfterDeletion(t *testing.T) {
	h := newInstallation(t, core(configMap("settings", "1")), aws())
	before := h.installed()
	deleted := h.object("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1")
	h.must(h.Delete(t.Context(), deleted))
	h.eventually("the ClusterAPI object is recreated", func() error {
		again := h.object("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1")
		if again == nil || again.GetUID() == deleted.GetUID() {
			return fmt.Errorf("not recreated")
		}
		return nil
	})
	h.settled("4.22.0-1")
	h.unchangedSince(before)
}

func TestCollision_ExternalObjectIsNotAdopted(t *testing.T) {
	h := newHarness(t)
	owner := &corev1.ConfigMap{}
	owner.Namespace, owner.Name = namespace, "owner"
	h.must(h.Create(t.Context(), owner))
	theirs := &corev1.ConfigMap{}
	theirs.Namespace, theirs.Name, theirs.Data = namespace, "theirs", map[string]string{"value": "theirs"}
	theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	h.must(h.Create(t.Context(), theirs))
	h.release(core(configMap("theirs", "ours")), aws())
	h.start("4.22.0")
	h.reports("InstallerDegraded", "Collision", "ConfigMap openshift-cluster-api/theirs")
	h.must(h.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	if theirs.Data["value"] != "theirs" {
		t.Errorf("the ConfigMap of another owner has value %q", theirs.Data["value"])
	}
	theirs.Annotations = map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}
	h.must(h.Update(t.Context(), theirs))
	h.settled("4.22.0-1")
	h.eventually("the garbage collector no longer deletes the adopted ConfigMap with its former owner", func() error {
		h.must(h.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
		if theirs.Data["value"] != "ours" || theirs.OwnerReferences != nil {
			return fmt.Errorf("the adopted ConfigMap has value %q and owners %v", theirs.Data["value"], theirs.OwnerReferences)
		}
		return nil
	})
}

// While a newer version is rolled out, the current version adopts no CRD: instances can be stored in an API version that only the newer version has.
func TestCollision_ReplacedVersionAdoptsNoCRD(t *testing.T) {
	h := newInstallation(t, core(), aws(versioned("v1")))
	theirs := &corev1.ConfigMap{}
	theirs.Namespace, theirs.Name = namespace, "theirs"
	h.must(h.Create(t.Context(), theirs))
	h.release(core(configMap("theirs", "ours")), aws(versioned("v1", "v2")))
	h.reports("InstallerDegraded", "Collision", "ConfigMap openshift-cluster-api/theirs")
	h.unmanaged(machines)
	h.eventually("the CRD is released", func() error {
		if found := ownershipMetadata(h.object(crdKind, "", machines)); found != nil {
			return fmt.Errorf("it has the metadata %v", found)
		}
		return nil
	})
	released := h.object(crdKind, "", machines)
	released.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	h.must(h.Update(t.Context(), released))
	h.unmanaged()
	h.reports("InstallerDegraded", "Collision", "ConfigMap openshift-cluster-api/theirs")
	h.rest()
	if adopted := h.object(crdKind, "", machines); adopted.GetLabels() != nil {
		t.Errorf("the replaced version has adopted the CRD: %v", adopted.GetAnnotations())
	}
	theirs.Annotations = map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}
	h.must(h.Update(t.Context(), theirs))
	h.settled("4.22.0-4")
	if adopted := h.object(crdKind, "", machines); len(ownershipMetadata(adopted)) == 0 || adopted.GetAnnotations()[v1alpha1.AdoptAnnotation] != "" {
		t.Errorf("the CRD is not adopted: %v", adopted.GetAnnotations())
	}
}

// Another controller writes an object as long as its annotation tells it to. So an adopted object loses the annotation before the objects of the
// next phase are adopted, not at the end of all adoptions.
func TestCollision_AdoptedObjectLosesInstructionsAtOnce(t *testing.T) {
	h := newHarness(t)
	manifests := []string{crd("firsts", "First"), configMap("last", "ours")}
	annotations, labels := map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways, injectCA: "a/b"}, map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet"}
	for _, manifest := range manifests {
		theirs := &unstructured.Unstructured{}
		h.must(decode(manifest, theirs))
		theirs.SetAnnotations(annotations)
		theirs.SetLabels(labels)
		h.must(h.Create(t.Context(), theirs))
	}
	h.installRelease(core(), aws(manifests...))
	var patched []string
	for _, write := range h.requests.take() {
		if name := path.Base(write.path); write.method == http.MethodPatch && !write.dryRun && (strings.HasPrefix(name, "firsts.") || name == "last") {
			patched = append(patched, name)
		}
	}
	// A cache that has not seen the removal yet causes a second one, which changes nothing.
	crdName := "firsts.infrastructure.cluster.x-k8s.io"
	if len(patched) < 4 || !slices.Equal(patched[:3], []string{crdName, crdName, "last"}) {
		t.Errorf("the annotation of the CRD is not removed before ConfigMap last is applied: %v", patched)
	}
	for _, adopted := range []*unstructured.Unstructured{h.object(crdKind, "", crdName), h.object("v1/ConfigMap", namespace, "last")} {
		if _, annotated := adopted.GetAnnotations()[injectCA]; annotated || adopted.GetLabels()["kustomize.toolkit.fluxcd.io/name"] != "" {
			t.Errorf("%s has annotations %v and labels %v", adopted.GetName(), adopted.GetAnnotations(), adopted.GetLabels())
		}
	}
}

// The objects that a release drops stay, and are restored, until it is complete.
func TestUpgrade_UnavailableReleaseKeepsPreviousRunning(t *testing.T) {
	h := newInstallation(t, core(configMap("old", "1")), aws(crd("machines", "Machine")))
	h.release(core(), aws(stuck("stuck")))
	h.reports("InstallerProgressing", "RollingOut", "4.22.0-2", "phase cluster-api-provider-aws", "Deployment openshift-cluster-api/stuck")
	if h.object("v1/ConfigMap", namespace, "old") == nil || h.object(crdKind, "", machines) == nil {
		t.Errorf("an object was removed before the version without it was complete: %v", h.names())
	}
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, "old")))
	h.appears("v1/ConfigMap", namespace, "old")
	if s := h.clusterAPI().Status; s.CurrentVersion != "4.22.0-1" || !meta.IsStatusConditionTrue(s.Conditions, "Available") {
		t.Errorf("the previous version is not available:\n%s", h.conditions())
	}
	h.release(core(), aws())
	h.settled("4.22.0-3")
	if names := strings.Join(h.names(), ", "); names != "Deployment capa, Deployment capi" {
		t.Errorf("installed objects are %s", names)
	}
}
