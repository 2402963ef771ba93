// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	boxcuttertypes "pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/installation"
)

// failure returns the response of an API server that fails.
func failure(request *http.Request, status *apierrors.StatusError) *http.Response {
	body, _ := json.Marshal(status.Status())
	return &http.Response{
		StatusCode: int(status.Status().Code), Request: request, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

// writesCRD reports whether a request creates or modifies the CRD whose name has a prefix, or is a dry run of it.
func writesCRD(request *http.Request, prefix string) bool {
	path, name, named := strings.Cut(request.URL.Path, "/customresourcedefinitions")
	if request.Method == http.MethodGet || !named || path == "" {
		return false
	}
	if name != "" || request.GetBody == nil {
		return strings.HasPrefix(name, "/"+prefix)
	}
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	content, err := io.ReadAll(body)
	return err == nil && bytes.Contains(content, []byte(`"name":"`+prefix))
}

// Guarantee: a transient error is never reported as a terminal one. A retained CRD is
// adopted again although the API server fails for another CRD of the phase.
//
// Guarantee: the state of an adopted CRD does not depend on its history. The annotation that allowed the adoption is removed.
func TestAdoption_AfterTransientError(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine"), crd("others", "Other")))
	h.machine()
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.disappears("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1")
	annotation := func() string { return h.object(crdKind, "", machines).GetAnnotations()[v1alpha1.AdoptAnnotation] }
	if annotation() == "" {
		t.Fatal("the CRD is not retained")
	}
	var failures atomic.Int64
	fail := func(request *http.Request) *http.Response {
		if !writesCRD(request, "others.") || failures.Add(1) > 4 {
			return nil
		}
		return failure(request, apierrors.NewInternalError(context.DeadlineExceeded))
	}
	h.onRequest.Store(&fail)
	h.reapply()
	h.settled("4.22.0-1")
	if failures.Load() == 0 {
		t.Fatal("no request failed")
	}
	h.loggedNone(0, "InstallerDegraded is True")
	h.eventually("the annotation is removed", func() error {
		if value := annotation(); value != "" {
			return fmt.Errorf("it is %q", value)
		}
		return nil
	})
}

// Conflicts are no failure: the cache may follow a little later. They are not reported.
func TestDrift_ConflictsAreRetried(t *testing.T) {
	h := newInstallation(t, core(), aws())
	tolerated := int64(3)
	if _, ours := any(&boxcuttertypes.PhaseReconcileOptions{}).(interface{ SetConcurrency(limit int) }); ours {
		tolerated *= 2 // each attempt repeats a write with the live object; the original does not
	}
	var conflicts atomic.Int64
	conflict := func(request *http.Request) *http.Response {
		if request.Method != http.MethodPatch || !strings.HasSuffix(request.URL.Path, "/deployments/capi") || request.URL.Query().Has("dryRun") || conflicts.Add(1) > tolerated {
			return nil
		}
		return failure(request, apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, "capi", context.DeadlineExceeded))
	}
	h.onRequest.Store(&conflict)
	h.patch("apps/v1/Deployment", namespace, "capi", "test", `{"spec": {"replicas": 5}}`)
	h.eventually("the change is reverted", func() error {
		if replicas, _, _ := unstructured.NestedInt64(h.object("apps/v1/Deployment", namespace, "capi").Object, "spec", "replicas"); replicas == 5 {
			return context.DeadlineExceeded
		}
		return nil
	})
	if conflicts.Load() < tolerated {
		t.Fatalf("%d conflicts, want %d", conflicts.Load(), tolerated)
	}
	h.loggedNone(0, "InstallerDegraded is")
}

// A CRD that another client deletes after the installer has read it, and before it lists the instances, is gone: that is no error, and not
// a terminal one.
func TestUninstall_CRDThatDisappears(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("others", "Other")))
	var once sync.Once
	disappeared := make(chan error, 1)
	remove := func(request *http.Request) *http.Response {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/v1beta1/others") {
			once.Do(func() { disappeared <- h.deleteCRD("others.infrastructure.cluster.x-k8s.io") })
		}
		return nil
	}
	h.onRequest.Store(&remove)
	before := len(h.log.lines())
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.must(<-disappeared)
	h.eventually("nothing is left", h.remaining)
	h.loggedNone(before, "InstallerDegraded is")
}

// deleteCRD deletes a CRD with the rights of the installer, and waits until its kind is not served.
func (h *harness) deleteCRD(name string) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(parseKind(crdKind))
	crd.SetName(name)
	if err := h.asInstaller().Delete(context.Background(), crd); err != nil {
		return err
	}
	return installation.Wait(patience, "the CRD is gone", h.activity, func() error {
		if err := h.Get(context.Background(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading it: %w", err)
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "OtherList"})
		if err := h.List(context.Background(), list); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("listing its instances: %w", err)
		}
		return nil
	})
}

// An object whose deletion is blocked by a finalizer counts as not installed: it is
// reported, and recreated after its deletion.
func TestInstall_ReportsAndRecreatesDeletedObjects(t *testing.T) {
	h := newInstallation(t, core(configMap("blocked", "")), aws())
	remove := h.addFinalizer("v1/ConfigMap", namespace, "blocked")
	blocked := h.object("v1/ConfigMap", namespace, "blocked")
	h.must(h.Delete(t.Context(), blocked))
	h.reports("InstallerProgressing", "RollingOut", "waiting for ConfigMap openshift-cluster-api/blocked")
	if phases := h.clusterAPI().Status.Versions[0].Phases; !slices.ContainsFunc(phases, func(p v1alpha1.Phase) bool {
		return len(p.WaitingFor) == 1 && strings.Contains(p.WaitingFor[0].Message, "blocked by finalizer test.example.com/hold")
	}) {
		t.Errorf("the phases do not name the finalizer: %+v", phases)
	}
	remove()
	h.settled("4.22.0-1")
	if recreated := h.object("v1/ConfigMap", namespace, "blocked"); recreated == nil || recreated.GetUID() == blocked.GetUID() {
		t.Errorf("the object was not recreated: %v", recreated)
	}
}

// A paused installer makes no write request, even while a version is being removed.
func TestPaused_DuringTeardown(t *testing.T) {
	h := newInstallation(t, core(configMap("stuck", ""), configMap("free", "")), aws())
	remove := h.addFinalizer("v1/ConfigMap", namespace, "stuck")
	h.release(core(), aws())
	h.reports("InstallerProgressing", "TearingDown", "ConfigMap openshift-cluster-api/stuck")
	h.mode(v1alpha1.Paused)
	h.reports("InstallerProgressing", "Paused")
	remove()
	h.disappears("v1/ConfigMap", namespace, "stuck")
	h.reconcileAgain() // it may end a reconcile that began before the deletion
	h.reconcileAgain()
	if h.object("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1") == nil {
		t.Error("the paused installer finished the teardown")
	}
	h.mode(v1alpha1.Managed)
	h.settled("4.22.0-2")
}

// Guarantee: each version in the status has its revision ConfigMap, even if the
// program ends or the API server fails while a version is created.
func TestVersion_StoredBeforeStatus(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws())
	fail := func(request *http.Request) *http.Response {
		if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/namespaces/"+v1alpha1.OpenShiftNamespaces.Operator+"/configmaps") {
			return nil
		}
		return failure(request, apierrors.NewInternalError(context.DeadlineExceeded))
	}
	h.onRequest.Store(&fail)
	h.start("4.22.0")
	h.reports("VersionDegraded", "WriteFailed", "4.22.0-1")
	if s := h.clusterAPI().Status; len(s.Versions) > 0 || s.DesiredVersion != "" {
		t.Errorf("the status has version %q and %d entries, but no revision ConfigMap exists", s.DesiredVersion, len(s.Versions))
	}
	h.onRequest.Store(nil)
	h.settled("4.22.0-1")
}
