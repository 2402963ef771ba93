// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// TestProviders_InstalledAndRemoved installs real providers with the shipped roles, removes them by a release without
// them, installs them again and uninstalls everything. It takes OpenShift's bundles, or, without PROVIDERS, the bundles of
// modules; all groups with E2E=full, one after the other in one cluster.
func TestProviders_InstalledAndRemoved(t *testing.T) {
	t.Parallel()
	groups, err := bundles.Groups(t.Context(), t.TempDir())
	must(t, err)
	if !full {
		sample := max(0, slices.IndexFunc(groups, func(group bundles.Group) bool { return group.Name == bundles.OpenShift }))
		groups = groups[sample : sample+1]
	}
	cluster := controlplane.Fresh(t)
	h := connect(t, cluster)
	h.prepare()
	h.must(h.AllowAllPods(h.Context()))
	for _, group := range groups {
		t.Run(group.Name, func(t *testing.T) {
			h.in(t).installsAndRemoves(group)
		})
	}
}

// in returns the harness for a subtest.
func (h *harness) in(t *testing.T) *harness {
	of := *h
	of.T, of.leased, of.last = t, t, nil
	t.Cleanup(of.endLast)
	return &of
}

// installsAndRemoves installs a group twice with the shipped roles, and removes it in both ways.
func (h *harness) installsAndRemoves(group bundles.Group) {
	h.Helper()
	objects := h.objectsOf(group.Bundles)
	upgrade := h.upgrader()
	other := aws("v1")
	other.Kind = "OtherCluster" // no real kind, because the kind of a CRD cannot be changed
	without := []extractor.Bundle{core("v1").Bundle(), other.Bundle()}
	installed := upgrade(group.Bundles...)
	h.expect(objects, true)
	dropped := upgrade(without...)
	h.expect(slices.DeleteFunc(slices.Clone(objects), among(h.objectsOf(without))), false)
	again := upgrade(group.Bundles...)
	h.expect(objects, true)
	start := time.Now()
	h.uninstall()
	h.expect(objects, false)
	h.Logf("%d providers, %d objects: installed in %s, dropped in %s, installed again in %s, uninstalled in %s",
		len(group.Bundles), len(objects), installed, dropped, again, time.Since(start).Round(time.Second))
}

// upgrader returns a function that releases bundles, waits until they are installed, and returns the time that it took.
func (h *harness) upgrader() func(...extractor.Bundle) time.Duration {
	h.Helper()
	settings := &v1alpha1.ClusterAPI{} // the installer creates it only at its first start
	settings.Name = v1alpha1.ClusterAPIName
	h.must(client.IgnoreAlreadyExists(h.Create(h.Context(), settings)))
	number := 0
	return func(bundles ...extractor.Bundle) time.Duration {
		h.Helper()
		if h.last != nil {
			h.last.terminate()
		}
		start := time.Now()
		number++
		release := fmt.Sprintf("4.22.%d", number)
		h.releaseBundles(bundles...)
		h.start(release)
		h.within(15*time.Minute, release+" is installed", func() error { return h.unsettled(fmt.Sprintf("%s-%d", release, number)) })
		return time.Since(start).Round(time.Second)
	}
}

// TestForks_UpgradedOneAfterTheOther installs the bundles of the forks in OLD_FORKS, and upgrades one fork after the other to its
// bundle in FORKS. Each upgrade removes the objects that the newer bundle does not contain, and then everything is uninstalled.
func TestForks_UpgradedOneAfterTheOther(t *testing.T) {
	release, err := bundles.Forks("OLD_FORKS")
	must(t, err)
	newer, err := bundles.Forks("FORKS")
	must(t, err)
	if len(release) == 0 || len(newer) == 0 {
		t.Skip("needs repositories of providers in OLD_FORKS and in FORKS")
	}
	h := connect(t, controlplane.Fresh(t))
	h.prepare()
	h = h.in(t)
	upgrade := h.upgrader()
	upgrade(release...)
	upgraded := 0
	for i, old := range release {
		name := old.Metadata.ProviderName
		found := slices.IndexFunc(newer, func(b extractor.Bundle) bool { return b.Metadata.ProviderName == name })
		if found < 0 || newer[found].Metadata.ContentID == old.Metadata.ContentID { // the same content is the same version
			continue
		}
		release[i] = newer[found]
		took := upgrade(release...)
		objects := h.objectsOf(release)
		h.expect(objects, true)
		dropped := slices.DeleteFunc(h.objectsOf([]extractor.Bundle{old}), among(objects))
		h.expect(dropped, false)
		t.Logf("%s %s -> %s in %s, %d objects dropped", name, old.Metadata.ProviderVersion, release[i].Metadata.ProviderVersion, took, len(dropped))
		upgraded++
	}
	if upgraded == 0 {
		t.Error("no fork differs between OLD_FORKS and FORKS")
	}
	h.uninstall()
	h.expect(h.objectsOf(release), false)
}

// objectsOf returns the identities of the objects of bundles, with the version of each kind.
func (h *harness) objectsOf(all []extractor.Bundle) (objects []metav1.PartialObjectMetadata) {
	h.Helper()
	for _, bundle := range all {
		decoded, err := yamldoc.Objects(bundle.Manifests)
		h.must(err)
		for _, o := range decoded {
			var found metav1.PartialObjectMetadata
			found.SetGroupVersionKind(o.GroupVersionKind())
			found.Name, found.Namespace = o.GetName(), o.GetNamespace()
			objects = append(objects, found)
		}
	}
	return objects
}

// among returns a function that reports whether an object is one of others.
func among(others []metav1.PartialObjectMetadata) func(metav1.PartialObjectMetadata) bool {
	return func(o metav1.PartialObjectMetadata) bool {
		return slices.ContainsFunc(others, func(other metav1.PartialObjectMetadata) bool {
			return o.GroupVersionKind() == other.GroupVersionKind() && client.ObjectKeyFromObject(&o) == client.ObjectKeyFromObject(&other)
		})
	}
}

// expect fails the test for each object that does not exist, or that does.
func (h *harness) expect(objects []metav1.PartialObjectMetadata, exists bool) {
	h.Helper()
	for i := range objects {
		o := &objects[i]
		err := h.Get(h.Context(), client.ObjectKeyFromObject(o), o.DeepCopy())
		if absent := apierrors.IsNotFound(err) || meta.IsNoMatchError(err); err != nil && !absent {
			h.Fatal(err)
		} else if absent == exists {
			h.Errorf("%s %s exists: %t, want %t", o.Kind, o.Name, !absent, exists)
		}
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
