// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// stuck returns the manifest of a Deployment whose pods no node can run.
func stuck(name string) string {
	return strings.Replace(deployment(name, placeholder), "      containers:", "      nodeSelector: {no: such-node}\n      containers:", 1)
}

// clusterContent returns all objects that are installed, or whose kind occurs in
// the providers of the tests, with the fields of all managers. It omits values that
// differ between two installations of a release: names of versions, fields that the
// API server sets, and status.
func (h *harness) clusterContent() map[string]any {
	h.Helper()
	out := map[string]any{}
	for _, kind := range append(slices.Clone(fixture.InstalledKinds), parseKind(requirementKind)) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		h.must(h.List(h.Context(), list))
		for _, item := range list.Items {
			ours := item.GetLabels()["app.kubernetes.io/managed-by"] == v1alpha1.Prefix
			if ours || item.GetNamespace() == namespace {
				out[kind.Kind+" "+item.GetName()] = normalized(item)
			}
		}
	}
	return out
}

// normalized returns an object without the fields that differ between two installations.
func normalized(item unstructured.Unstructured) map[string]any {
	annotations := item.GetAnnotations()
	for _, key := range []string{v1alpha1.OwnersAnnotation, v1alpha1.RevisionAnnotation, "deployment.kubernetes.io/revision"} {
		delete(annotations, key)
	}
	metadata := map[string]any{"labels": item.GetLabels(), "annotations": annotations, "finalizers": item.GetFinalizers(), "owners": item.GetOwnerReferences()}
	fields := map[string]any{}
	for key, value := range item.Object {
		if key != "metadata" && key != "status" {
			fields[key] = value
		}
	}
	fields["metadata"] = metadata
	return fields
}

// onlyVersion fails the test unless every installed object is owned by one version, and
// no other version has a revision ConfigMap.
func (h *harness) onlyVersion(version string) {
	h.Helper()
	revisions := &corev1.ConfigMapList{}
	h.must(h.List(h.Context(), revisions, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel}))
	if len(revisions.Items) != 1 || revisions.Items[0].Name != version {
		h.Errorf("got %d revision ConfigMaps, want 1", len(revisions.Items))
	}
	objects, err := fixture.Installed(h.Context(), h)
	h.must(err)
	for _, item := range objects {
		owners := item.GetAnnotations()[v1alpha1.OwnersAnnotation]
		if strings.Count(owners, `"kind"`) != 1 || !strings.Contains(owners, `"`+version+`"`) {
			h.Errorf("%s %s is owned by %s", item.GetKind(), item.GetName(), owners)
		}
	}
}

// freshInstallation installs a release into the empty cluster, returns the content
// of the cluster, and uninstalls the release.
func (h *harness) freshInstallation(release string, make func()) map[string]any {
	h.Helper()
	make()
	h.start(release)
	h.settled(release + "-1")
	content := h.clusterContent()
	h.uninstall()
	h.reapply()
	return content
}

// Releases for upgrades and downgrades. Each has a CRD and a ConfigMap that the
// others lack or define differently.
func (h *harness) releaseA() {
	h.Helper()
	h.release(core(configMap("settings", "a"), configMap("only-a", "")), aws(crd("machines", "Machine")))
}

func (h *harness) releaseB() {
	h.Helper()
	h.release(core(configMap("settings", "b"), configMap("only-b", ""), crd("bees", "Bee")), aws(stuck("never"), crd("machines", "Machine")))
}

func (h *harness) releaseC() {
	h.Helper()
	h.release(core(configMap("settings", "c"), stuck("neither")), aws(configMap("only-c", ""), crd("seas", "Sea")))
}

func TestUpgrade_DuringRolloutEqualsFreshInstallation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// steps are releases that do not become available; each is released during
		// the rollout of the previous one.
		steps []func(*harness)
	}{
		{"flip-flop A B A", []func(*harness){(*harness).releaseB}},
		{"flip-flop A B A B A", []func(*harness){(*harness).releaseB, (*harness).releaseA, (*harness).releaseB}},
		{"three deep", []func(*harness){(*harness).releaseB, (*harness).releaseC, (*harness).releaseB}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t)
			want := h.freshInstallation("4.22.0", h.releaseA)
			h.releaseA()
			h.start("4.22.0")
			h.settled("4.22.0-1")
			for i, step := range test.steps {
				step(h)
				h.rollingOut(fmt.Sprintf("4.22.0-%d", i+2))
			}
			h.releaseA()
			last := fmt.Sprintf("4.22.0-%d", len(test.steps)+2)
			h.settled(last)
			h.onlyVersion(last)
			if diff := cmp.Diff(want, h.clusterContent()); diff != "" {
				t.Errorf("the cluster (-fresh +now):\n%s", diff)
			}
		})
	}
}

// rollingOut waits until a version is desired and its rollout has started.
func (h *harness) rollingOut(version string) {
	h.Helper()
	h.eventually("version "+version+"is being rolled out", func() error {
		settings := h.object("v1/ConfigMap", namespace, "settings")
		if s := h.clusterAPI().Status; s.DesiredVersion != version || settings == nil || !strings.Contains(settings.GetAnnotations()[v1alpha1.OwnersAnnotation], version) {
			return fmt.Errorf("desired version is %s", s.DesiredVersion)
		}
		return nil
	})
}

func TestRollout_StopsForASupersededRelease(t *testing.T) {
	h := newHarness(t)
	h.releaseA()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.release(core(configMap("settings", "2"), configMap("only-2", ""), stuck("slow")), aws(configMap("later-2", "")))
	h.rollingOut("4.22.0-2")
	h.release(core(configMap("settings", "3"), stuck("slower")), aws(crd("machines", "Machine")))
	h.rollingOut("4.22.0-3")
	slow := h.object("apps/v1/Deployment", namespace, "slow")
	// Without its Deployment, the first phase of the superseded version is complete. A reconcile that has read the
	// Deployment before it was deleted can create it once more; the next one must not.
	h.eventually("the Deployment of the superseded version stays deleted", func() error {
		h.must(client.IgnoreNotFound(h.Delete(t.Context(), slow)))
		h.edit("only-2")
		h.becomes("only-2", "")
		if h.object("apps/v1/Deployment", namespace, "slow") != nil {
			return errors.New("it exists")
		}
		return nil
	})
	if h.object("v1/ConfigMap", namespace, "later-2") != nil {
		t.Error("the superseded version was rolled out further")
	}
	if h.object("v1/ConfigMap", namespace, "only-a") == nil {
		t.Error("an object of the current version was deleted")
	}
}

func TestDrift_RevertedBehindAnUnavailablePhase(t *testing.T) {
	h := newInstallation(t, core(), aws(configMap("last", "1")))
	h.setNode(false)
	t.Cleanup(func() { h.setNode(true) })
	h.must(h.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": "capi"}, client.GracePeriodSeconds(0)))
	h.waits("4.22.0-1", "Deployment openshift-cluster-api/capi", "0 available")
	h.eventually("the missing object is reported", func() error {
		if !meta.IsStatusConditionFalse(h.clusterAPI().Status.Conditions, "Available") {
			return fmt.Errorf("Available is not False")
		}
		return nil
	})
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, "last")))
	h.appears("v1/ConfigMap", namespace, "last")
	h.setNode(true)
	h.settled("4.22.0-1")
}

// TestRollout_ProgressDeadline: a rollout without progress makes the operator
// Degraded, and the next release resolves it.
func TestRollout_ProgressDeadline(t *testing.T) {
	h := newHarness(t)
	h.progressTimeout = 3 * time.Second
	h.release(core(configMap("settings", "1")), aws(stuck("never")))
	h.start("4.22.0")
	h.reports("InstallerDegraded", "ProgressDeadlineExceeded", "Deployment "+namespace+"/never")
	h.reports("InstallerProgressing", "ProgressDeadlineExceeded")
	h.release(core(configMap("settings", "1")), aws())
	h.settled("4.22.0-2")
}
