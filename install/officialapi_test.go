// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// serveOfficial installs the CRD of OpenShift's own ClusterAPI and creates its object. Both are removed at the end.
func (h *harness) serveOfficial(unmanaged ...string) {
	h.Helper()
	crds, err := fixture.OfficialClusterAPI(h.Context())
	h.must(err)
	h.must(fixture.InstallCRDs(h.Context(), h.Cluster.Config, crds))
	h.Cleanup(func() {
		crd := h.object(crdKind, "", crds[0].GetName())
		if crd != nil {
			h.must(client.IgnoreNotFound(h.Delete(context.Background(), crd)))
		}
		h.eventually("the official API is removed", func() error {
			err := h.Get(context.Background(), client.ObjectKey{Name: "cluster"}, &operatorv1alpha1.ClusterAPI{})
			if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
				return nil
			}
			return fmt.Errorf("the API is served: %w", err)
		})
	})
	official := &operatorv1alpha1.ClusterAPI{Spec: &operatorv1alpha1.ClusterAPISpec{UnmanagedCustomResourceDefinitions: unmanaged}}
	official.Name = v1alpha1.ClusterAPIName
	h.eventually("the official object is created", func() error { return h.Create(h.Context(), official) })
}

func (h *harness) official() *operatorv1alpha1.ClusterAPI {
	h.Helper()
	official := &operatorv1alpha1.ClusterAPI{}
	h.must(h.Get(h.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, official))
	return official
}

// exclude sets the unmanaged CRDs of the official object.
func (h *harness) exclude(names ...string) {
	h.Helper()
	list, err := json.Marshal(names)
	h.must(err)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"unmanagedCustomResourceDefinitions": %s}}`, list))
	h.must(h.Patch(h.Context(), h.official(), patch))
}

// officiallySettled waits as HyperShift does: until the exclusions are observed and installed.
func (h *harness) officiallySettled(version string) operatorv1alpha1.ClusterAPIStatus {
	h.Helper()
	h.eventually("the official status has version "+version, func() error {
		official := h.official()
		s := official.Status
		if string(s.CurrentRevision) != version || s.DesiredRevision != s.CurrentRevision || s.ObservedRevisionGeneration < official.Generation {
			return fmt.Errorf("current %s, desired %s, observed %d of %d", s.CurrentRevision, s.DesiredRevision, s.ObservedRevisionGeneration, official.Generation)
		}
		return nil
	})
	return h.official().Status
}

// hideDiscovery answers the installer's discovery of a group version with "not
// found" for some time, like an API server that has not registered the kinds of a
// new CRD yet. It returns the number of these answers.
func (h *harness) hideDiscovery(path string, lasting time.Duration) *atomic.Int64 {
	hidden, until := &atomic.Int64{}, time.Now().Add(lasting)
	answer := func(request *http.Request) *http.Response {
		if request.URL.Path != path || time.Now().After(until) {
			return nil
		}
		hidden.Add(1)
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: request}
	}
	h.onRequest.Store(&answer)
	return hidden
}

// TestOfficialAPI_AppearsLate: the API is served after the installer has started; an exclusion there releases the CRD.
func TestOfficialAPI_AppearsLate(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))

	hidden := h.hideDiscovery("/apis/"+operatorv1alpha1.GroupVersion.String(), 3*time.Second)
	h.serveOfficial()
	s := h.officiallySettled("4.22.0-1")
	if hidden.Load() == 0 {
		t.Error("the installer did not request the API before it was served")
	}
	if len(s.Revisions) != 1 || len(s.Revisions[0].Components) != 2 || s.Revisions[0].UnmanagedCustomResourceDefinitions != nil {
		t.Errorf("revisions %+v", s.Revisions)
	}

	h.exclude(machines)
	h.answer(machines, 2, "True", "True", "")
	s = h.officiallySettled("4.22.0-2")
	if last := s.Revisions[len(s.Revisions)-1]; !slices.Equal(last.UnmanagedCustomResourceDefinitions, []string{machines}) {
		t.Errorf("revision %s has unexpected unmanaged CRDs %v", last.Name, last.UnmanagedCustomResourceDefinitions)
	}
	cluster := h.clusterAPI()
	if version := cluster.Status.Version("4.22.0-2"); len(cluster.Spec.UnmanagedCRDs) != 0 || version == nil || !slices.Equal(version.UnmanagedCRDs, []string{machines}) {
		t.Errorf("spec %v, version %+v", cluster.Spec.UnmanagedCRDs, version)
	}
	if found := ownershipMetadata(h.object(crdKind, "", machines)); found != nil {
		t.Errorf("the excluded CRD still has %v", found)
	}
	h.settled("4.22.0-2")
	h.reconcileTimes(2)
	before := h.official().ResourceVersion
	h.reconcileTimes(3)
	if after := h.official().ResourceVersion; after != before {
		t.Errorf("the official object was written without a change: %s, then %s", before, after)
	}
	for _, entry := range h.official().ManagedFields {
		if entry.Subresource == "status" && entry.Manager != officialapi.FieldOwner {
			t.Errorf("manager %s owns fields of the status", entry.Manager)
		}
	}
}

// TestOfficialAPI_Predecessor: revisions of cluster-capi-operator keep their
// numbers, and are removed when a version is complete. The two lists of unmanaged
// CRDs are united, even with the 128 entries that the official one may have.
func TestOfficialAPI_Predecessor(t *testing.T) {
	h := newHarness(t)
	many := []string{}
	for i := range 128 {
		many = append(many, fmt.Sprintf("kinds%d.test.example.com", i))
	}
	h.serveOfficial(many...)
	official := h.official()
	official.Status = operatorv1alpha1.ClusterAPIStatus{CurrentRevision: "theirs-6", DesiredRevision: "theirs-7", ObservedRevisionGeneration: 1}
	for i := range int64(2) {
		official.Status.Revisions = append(official.Status.Revisions, operatorv1alpha1.ClusterAPIInstallerRevision{
			Name: operatorv1alpha1.RevisionName(fmt.Sprintf("theirs-%d", 6+i)), Revision: 6 + i, ContentID: "theirs",
		})
	}
	h.must(h.Status().Update(t.Context(), official))
	h.unmanaged(machines)
	h.release(core(), aws(crd("machines", "Machine")))
	h.start("4.22.0")
	h.answer(machines, 8, "True", "True", "")
	h.settled("4.22.0-8")
	s := h.officiallySettled("4.22.0-8")
	if len(s.Revisions) != 1 || s.Revisions[0].Revision != 8 {
		t.Errorf("revisions %+v", s.Revisions)
	}
	if count := len(h.clusterAPI().Status.Versions[0].UnmanagedCRDs); count != 129 {
		t.Errorf("the version has %d unmanaged CRDs, want 129", count)
	}

	cluster := h.clusterAPI()
	h.must(h.Delete(t.Context(), cluster))
	h.eventually("no revision is current after an uninstall", func() error {
		if current := h.official().Status.CurrentRevision; current != "" {
			return fmt.Errorf("%s is current", current)
		}
		return nil
	})
}

// TestOfficialAPI_Ignored: with the flag turned off, the official object has no
// effect and is not modified.
func TestOfficialAPI_Ignored(t *testing.T) {
	h := newHarness(t)
	h.serveOfficial(machines)
	h.ignoreOfficial = true
	h.installRelease(core(), aws(crd("machines", "Machine")))
	time.Sleep(500 * time.Millisecond)
	if s := h.official().Status; len(s.Revisions) != 0 {
		t.Errorf("status %+v", s)
	}
	if found := ownershipMetadata(h.object(crdKind, "", machines)); found == nil {
		t.Error("the CRD is not installed")
	}
}
