// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// versioned is the manifest of the CRD machines with versions; the last one is the storage version.
func versioned(versions ...string) string {
	return fixture.CRD("machines", "Machine", "", versions...)
}

// storedVersions returns status.storedVersions of the CRD machines.
func (h *harness) storedVersions() []string {
	h.Helper()
	versions, _, _ := unstructured.NestedStringSlice(h.object(crdKind, "", machines).Object, "status", "storedVersions")
	return versions
}

// instances creates instances of the CRD machines in a version, and returns a function that reads them again.
func (h *harness) instances(version string, number int) (check func(version string)) {
	h.Helper()
	var all []*unstructured.Unstructured
	for i := range number {
		instance := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "infrastructure.cluster.x-k8s.io/" + version, "kind": "Machine",
			"metadata": map[string]any{"name": fmt.Sprint("m", i), "namespace": namespace}, "spec": map[string]any{"number": int64(i)},
		}}
		h.must(h.Create(h.Context(), instance, client.FieldOwner("user")))
		all = append(all, instance)
	}
	h.Cleanup(func() {
		h.must(h.DeleteAllOf(context.Background(), instanceOf(h.storedVersions()[0]), client.InNamespace(namespace)))
	})
	return func(version string) {
		h.Helper()
		stored := h.storedVersions()
		for _, created := range all {
			found := instanceOf(version)
			h.must(h.Get(h.Context(), key(created), found))
			owners := found.GetManagedFields()
			if found.GetUID() != created.GetUID() || len(owners) != 1 || owners[0].Manager != "user" || !slices.Contains(stored, path.Base(owners[0].APIVersion)) {
				h.Errorf("%s: UID %s, want %s; field managers %v, want one in %v", found.GetName(), found.GetUID(), created.GetUID(), owners, stored)
			}
		}
	}
}

func instanceOf(version string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetAPIVersion("infrastructure.cluster.x-k8s.io/" + version)
	out.SetKind("Machine")
	return out
}

// A release that drops a version of a CRD is installed although instances were stored in that version: they are stored in another
// one first. Only instances in a storage version that is dropped itself stop it.
func TestStoredVersions_Dropped(t *testing.T) {
	for name, test := range map[string]struct {
		before    [][]string // the versions of the CRD in each release
		instances int
		dropped   []string // the versions of the last release
		refused   bool
	}{
		"no instances":                             {[][]string{{"v1alpha1"}, {"v1alpha1", "v1beta1"}}, 0, []string{"v1beta1"}, false},
		"instances":                                {[][]string{{"v1alpha1"}, {"v1alpha1", "v1beta1"}}, 3, []string{"v1beta1"}, false},
		"two versions at once, and a newer one":    {[][]string{{"v1alpha1"}, {"v1alpha1", "v1alpha2"}, {"v1alpha1", "v1alpha2", "v1beta1"}}, 3, []string{"v1beta1", "v1"}, false},
		"the storage version, no instances":        {[][]string{{"v1alpha1"}}, 0, []string{"v1beta1"}, false},
		"the storage version of several":           {[][]string{{"v1alpha1"}, {"v1alpha1", "v1alpha2"}}, 0, []string{"v1beta1"}, false},
		"the storage version, which instances use": {[][]string{{"v1alpha1"}}, 3, []string{"v1beta1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			check, number := func(string) {}, 0
			for i, versions := range test.before {
				h.release(core(), aws(versioned(versions...)))
				if i == 0 {
					h.start("4.22.0")
				}
				number++
				h.settled(fmt.Sprint("4.22.0-", number))
				if i == 0 && test.instances > 0 {
					check = h.instances(versions[0], test.instances)
				}
			}
			h.release(core(), aws(versioned(test.dropped...)))
			if test.refused {
				h.reports("InstallerDegraded", "ObjectsRefused", machines, "the release lacks version v1alpha1, in which instances are stored")
				check("v1alpha1")
				h.release(core(), aws(versioned("v1alpha1")))
				h.settled(fmt.Sprint("4.22.0-", number+2))
				check("v1alpha1")
				return
			}
			h.settled(fmt.Sprint("4.22.0-", number+1))
			storage := test.dropped[len(test.dropped)-1]
			if stored := h.storedVersions(); stored[len(stored)-1] != storage || slices.ContainsFunc(stored, func(v string) bool { return !slices.Contains(test.dropped, v) }) {
				t.Errorf("stored versions are %v, the release has %v", stored, test.dropped)
			}
			check(storage)
			if h.object("rbac.authorization.k8s.io/v1/ClusterRole", "", "openshift-capi-installer-instances") != nil {
				t.Error("the permission of the migration remains")
			}
		})
	}
}

// A process that ends before or after any write of a migration is followed by one that completes it.
func TestStoredVersions_CrashAtEveryWrite(t *testing.T) {
	h := newHarness(t)
	name := func(i int) string { return fmt.Sprint("v", i) }
	h.installRelease(core(), aws(versioned(name(1))))
	check := h.instances(name(1), 3)
	h.crashAtEveryWrite(ofMigration, func(i int) (func(), string) {
		h.release(core(), aws(versioned(name(i), name(i+1))))
		h.settled(fmt.Sprint("4.22.0-", 2*i))
		return func() { h.release(core(), aws(versioned(name(i+1)))) }, fmt.Sprint("4.22.0-", 2*i+1)
	}, func(i int) {
		if stored := h.storedVersions(); !slices.Equal(stored, []string{name(i + 1)}) {
			t.Errorf("crash %d: stored versions are %v", i, stored)
		}
		check(name(i + 1))
	})
}

// ofMigration reports whether a request is a write of a migration: of an instance, or of the status of the CRD.
func ofMigration(request *http.Request) bool {
	of := request.URL.Path
	return request.Method == http.MethodPatch && !request.URL.Query().Has("dryRun") &&
		(strings.Contains(of, "/machines/") || strings.HasSuffix(of, machines+"/status"))
}

// Until a rollout has written all instances, the maintenance of the current version keeps the storage version that the rollout has set: it would
// undo the rollout, and instances that are written meanwhile would stay in the dropped version.
func TestStoredVersions_NotRevertedDuringTheRollout(t *testing.T) {
	h := newInstallation(t, core(), aws(versioned("v1")))
	check := h.instances("v1", 3)
	h.release(core(), aws(versioned("v1", "v2")))
	h.settled("4.22.0-2")
	const failures = 4
	var attempts, switched atomic.Int64
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		switch {
		case strings.HasSuffix(request.URL.Path, "/customresourcedefinitions/"+machines) && request.Method == http.MethodPatch && !request.URL.Query().Has("dryRun"):
			if attempts.Load() <= failures {
				switched.Add(1)
			}
		case ofMigration(request) && attempts.Add(1) <= failures:
			return failure(request, apierrors.NewServiceUnavailable("test"))
		}
		return nil
	}))
	h.release(core(), aws(versioned("v1")))
	h.settled("4.22.0-3")
	check("v1")
	if n := switched.Load(); n != 1 {
		t.Errorf("the CRD was written %d times before its instances, want once, for the switch of its storage version", n)
	}
}
