// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// ofVersions returns two providers of the given versions, with nine objects each.
func ofVersions(core, aws string) []provider {
	var out []provider
	for _, s := range []fixture.Synthetic{
		{Name: "cluster-api", Type: extractor.Core, Version: core, ImageName: placeholder},
		{Name: "cluster-api-provider-aws", Type: extractor.Infrastructure, Version: aws, ImageName: placeholder},
	} {
		out = append(out, provider{name: s.Name, kind: string(s.Type), manifests: []string{string(s.Manifests())}})
	}
	return out
}

// owners returns the version that owns the objects of each provider, and fails the test if they have several.
func (h *harness) owners() (core, aws string) {
	h.Helper()
	found := map[bool]map[string]bool{true: {}, false: {}}
	all, err := fixture.Installed(h.Context(), h)
	h.must(err)
	for i := range all {
		_, name, _ := strings.Cut(all[i].GetAnnotations()[v1alpha1.OwnersAnnotation], `"name":"`)
		name, _, _ = strings.Cut(name, `"`)
		isAWS := strings.Contains(all[i].GetName(), "aws")
		found[isAWS][name] = true
	}
	cores, infrastructures := slices.Sorted(maps.Keys(found[false])), slices.Sorted(maps.Keys(found[true]))
	if len(cores) > 1 || len(infrastructures) > 1 {
		h.Fatalf("owners of the core provider: %v; of the infrastructure provider: %v", cores, infrastructures)
	}
	return strings.Join(cores, ""), strings.Join(infrastructures, "")
}

// An upgrade writes only the objects of changed components. A rollback writes the objects that it changes back, with a new
// owner, and the removal of each version leaves the objects of the components that another version has.
func TestUpgrade_WritesChangedComponentsOnly(t *testing.T) {
	h := newInstallation(t, ofVersions("v1.0.0", "v1.0.0")...)
	before := h.installed()
	for _, step := range []struct{ core, aws, version, coreOwner, awsOwner string }{
		{"v1.0.0", "v2.0.0", "4.22.0-2", "4.22.0-1", "4.22.0-2"},
		{"v1.0.0", "v3.0.0", "4.22.0-3", "4.22.0-1", "4.22.0-3"},
		{"v2.0.0", "v3.0.0", "4.22.0-4", "4.22.0-4", "4.22.0-3"},
		{"v1.0.0", "v3.0.0", "4.22.0-5", "4.22.0-5", "4.22.0-3"},
		{"v1.0.0", "v1.0.0", "4.22.0-6", "4.22.0-5", "4.22.0-6"},
	} {
		h.requests.take()
		h.release(ofVersions(step.core, step.aws)...)
		h.settled(step.version)
		h.reconcileAgain()
		all := h.requests.take()
		objects, _ := ofObjects(all)
		for path := range objects {
			isAWS := strings.Contains(path, "aws")
			if changed := step.awsOwner == step.version; isAWS != changed {
				t.Errorf("%s: %s was written", step.version, path)
			}
		}
		if len(objects) != 9 {
			t.Errorf("%s: %d objects were written, want 9", step.version, len(objects))
		}
		if core, aws := h.owners(); core != step.coreOwner || aws != step.awsOwner {
			t.Errorf("%s: owners %s and %s, want %s and %s", step.version, core, aws, step.coreOwner, step.awsOwner)
		}
		t.Logf("%s: %d writes and dry runs", step.version, len(all))
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(h.installed()))); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
	if components := h.clusterAPI().Status.Versions[0].Components; components[0].InstalledAs != "4.22.0-5" || components[1].InstalledAs != "" {
		t.Errorf("components in the status: %+v", components)
	}
}

// A component that is not ready does not block the upgrade of another one, and its drift is reverted, and reported, meanwhile.
func TestUpgrade_UnchangedComponentBlocksNothing(t *testing.T) {
	h := newInstallation(t, core(configMap("settings", "1")), aws(configMap("zone", "1")))
	h.setNode(false)
	t.Cleanup(func() { h.setNode(true) })
	h.must(h.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": "capi"}, client.GracePeriodSeconds(0)))
	h.waits("4.22.0-1", "Deployment openshift-cluster-api/capi", "0 available")
	h.release(core(configMap("settings", "1")), aws(configMap("zone", "2"), stuck("never")))
	h.becomes("zone", "2") // the changed component is rolled out
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, "settings")))
	h.appears("v1/ConfigMap", namespace, "settings") // of the unchanged component
	if desired := h.clusterAPI().Status.Versions[1]; slices.ContainsFunc(desired.Phases, func(p v1alpha1.Phase) bool {
		return strings.HasPrefix(p.Name, "cluster-api-crds") || p.Name == "cluster-api"
	}) {
		t.Errorf("phases of the upgrade: %+v", desired.Phases)
	}
	h.setNode(true)
	h.release(core(configMap("settings", "1")), aws(configMap("zone", "3")))
	h.settled("4.22.0-3")
	if h.object("apps/v1/Deployment", namespace, "never") != nil {
		t.Error("an object of the version that was never complete remains")
	}
}

// An object that moves to another component, or to a component of another name, keeps its UID, forwards and backwards.
func TestUpgrade_ObjectsMoveBetweenComponents(t *testing.T) {
	h := newHarness(t)
	moved := []string{configMap("moved", "1"), crd("machines", "Machine")}
	h.installRelease(core(moved...), aws())
	uids := func() string {
		h.Helper()
		return fmt.Sprint(h.object("v1/ConfigMap", namespace, "moved").GetUID(), h.object(crdKind, "", machines).GetUID())
	}
	before := uids()
	instance := h.machine()
	for number, release := range [][]provider{{core(), aws(moved...)}, {core(moved...), aws()}, {core(), aws(moved...)}} {
		h.release(release...)
		h.settled(fmt.Sprint("4.22.0-", number+2))
		if after := uids(); after != before {
			t.Errorf("version %d: the objects were created again", number+2)
		}
	}
	h.must(h.Get(t.Context(), key(instance), instance))
	h.release(core(), aws())
	h.settled("4.22.0-5")
	if h.object("v1/ConfigMap", namespace, "moved") != nil {
		t.Errorf("an object that no version has remains: %v", h.names())
	}
	h.must(h.Get(t.Context(), key(instance), instance))
}
