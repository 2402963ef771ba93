// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// allowAllPods makes the providers' namespace admit the pods of providers that were not made for OpenShift.
func (h *harness) allowAllPods() {
	h.Helper()
	operands := &corev1.Namespace{}
	operands.Name = namespace
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	h.must(h.Patch(h.Context(), operands, patch))
}

// TestProviders_InstalledAndRemoved installs real providers with the shipped roles, removes them by a release without
// them, installs them again and uninstalls everything. It takes OpenShift's bundles, or, without PROVIDERS, the bundles of
// modules; all groups with E2E=full, one after the other in one cluster.
func TestProviders_InstalledAndRemoved(t *testing.T) {
	t.Parallel()
	groups, err := bundles.Groups(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !full {
		sample := max(0, slices.IndexFunc(groups, func(group bundles.Group) bool { return group.Name == bundles.OpenShift }))
		groups = groups[sample : sample+1]
	}
	cluster := controlplane.Fresh(t)
	h := connect(t, cluster)
	h.prepare()
	h.allowAllPods()
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
	settings := &v1alpha1.ClusterAPI{} // the installer creates it only at its first start
	settings.Name = v1alpha1.ClusterAPIName
	h.must(client.IgnoreAlreadyExists(h.Create(h.Context(), settings)))
	var took []time.Duration
	step := func(release, version string, bundles ...extractor.Bundle) {
		h.Helper()
		if h.last != nil {
			h.last.terminate()
		}
		start := time.Now()
		h.releaseBundles(bundles...)
		h.start(release)
		h.within(15*time.Minute, version+" is installed", func() error { return h.unsettled(version) })
		took = append(took, time.Since(start).Round(time.Second))
	}
	other := aws("v1")
	other.Kind = "OtherCluster" // no real kind, because the kind of a CRD cannot be changed
	without := []extractor.Bundle{core("v1").Bundle(), other.Bundle()}
	step("4.22.0", "4.22.0-1", group.Bundles...)
	h.expect(objects, true)
	step("4.22.1", "4.22.1-2", without...)
	h.expect(slices.DeleteFunc(slices.Clone(objects), among(h.objectsOf(without))), false)
	step("4.22.2", "4.22.2-3", group.Bundles...)
	h.expect(objects, true)
	start := time.Now()
	h.uninstall()
	h.expect(objects, false)
	h.Logf("%d providers, %d objects: installed in %s, dropped in %s, installed again in %s, uninstalled in %s",
		len(group.Bundles), len(objects), took[0], took[1], took[2], time.Since(start).Round(time.Second))
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
