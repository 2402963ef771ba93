// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// stuck is the manifest of a Deployment that no node can run.
func stuck(name string) string {
	return strings.Replace(deployment(name, placeholder), "      containers:", "      nodeSelector: {no: such-node}\n      containers:", 1)
}

// content is every object in the cluster that is installed, or of a kind that the
// providers of the tests have, with all that anybody has written into it. Left out
// is what differs between two installations of the same: names of versions, what the
// API server counts and assigns, and status.
func (h *harness) content() map[string]any {
	h.Helper()
	out := map[string]any{}
	for _, kind := range append(slices.Clone(installedKinds), requirementKind) {
		list := &unstructured.UnstructuredList{}
		gvk := parseKind(kind)
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		h.must(h.List(h.Context(), list))
		for _, item := range list.Items {
			ours := item.GetLabels()["app.kubernetes.io/managed-by"] == v1alpha1.Prefix
			if ours || item.GetNamespace() == namespace {
				out[gvk.Kind+" "+item.GetName()] = bare(item)
			}
		}
	}
	return out
}

// bare is an object without what differs between two installations of it.
func bare(item unstructured.Unstructured) map[string]any {
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

// sole fails the test unless every installed object is owned by one version alone,
// and there is no other revision ConfigMap than its.
func (h *harness) sole(version string) {
	h.Helper()
	revisions := &corev1.ConfigMapList{}
	h.must(h.List(h.Context(), revisions, client.InNamespace(v1alpha1.OperatorNamespace), client.HasLabels{v1alpha1.RevisionLabel}))
	if len(revisions.Items) != 1 || revisions.Items[0].Name != version {
		h.Errorf("there are %d revision ConfigMaps", len(revisions.Items))
	}
	for _, kind := range installedKinds {
		list := &unstructured.UnstructuredList{}
		gvk := parseKind(kind)
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		h.must(h.List(h.Context(), list, client.MatchingLabels{"app.kubernetes.io/managed-by": v1alpha1.Prefix}))
		for _, item := range list.Items {
			owners := item.GetAnnotations()[v1alpha1.OwnersAnnotation]
			if strings.Count(owners, `"kind"`) != 1 || !strings.Contains(owners, `"`+version+`"`) {
				h.Errorf("%s %s is owned by %s", gvk.Kind, item.GetName(), owners)
			}
		}
	}
}

// fresh installs a release into the cluster, which has nothing installed, returns
// what is there then, and uninstalls it again.
func (h *harness) fresh(release string, make func()) map[string]any {
	h.Helper()
	make()
	h.start(release)
	h.settled(release + "-1")
	content := h.content()
	h.uninstall()
	h.reapply()
	return content
}

// The releases of the tests of what comes after what. Each has a CRD and a ConfigMap that
// the others have otherwise or not at all.
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

func TestSupersededReleasesEndLikeAFreshInstallationOfTheLast(t *testing.T) {
	for _, test := range []struct {
		name string
		// steps are releases that do not come up, each decided on while the one before is on its way.
		steps []func(*harness)
	}{
		{"flip-flop A B A", []func(*harness){(*harness).releaseB}},
		{"flip-flop A B A B A", []func(*harness){(*harness).releaseB, (*harness).releaseA, (*harness).releaseB}},
		{"three deep", []func(*harness){(*harness).releaseB, (*harness).releaseC, (*harness).releaseB}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t)
			want := h.fresh("4.22.0", h.releaseA)
			h.releaseA()
			h.start("4.22.0")
			h.settled("4.22.0-1")
			for i, step := range test.steps {
				step(h)
				h.decided(fmt.Sprintf("4.22.0-%d", i+2))
			}
			h.releaseA()
			last := fmt.Sprintf("4.22.0-%d", len(test.steps)+2)
			h.settled(last)
			h.sole(last)
			if diff := cmp.Diff(want, h.content()); diff != "" {
				t.Errorf("the cluster (-fresh +now):\n%s", diff)
			}
		})
	}
}

// decided waits until a version is desired, and is on its way into the cluster.
func (h *harness) decided(version string) {
	h.Helper()
	h.eventually("version "+version+" is on its way", func() error {
		settings := h.object("v1/ConfigMap", namespace, "settings")
		if s := h.clusterAPI().Status; s.DesiredVersion != version || settings == nil || !strings.Contains(settings.GetAnnotations()[v1alpha1.OwnersAnnotation], version) {
			return fmt.Errorf("desired is %s", s.DesiredVersion)
		}
		return nil
	})
}

func TestADowngradeInTheMiddleOfAnUpgradeEndsLikeAFreshInstallation(t *testing.T) {
	h := newHarness(t)
	want := h.fresh("4.22.0", h.releaseA)
	h.releaseA()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.stop()
	h.releaseB()
	h.start("4.23.0")
	h.decided("4.23.0-2")
	h.stop()
	h.releaseA()
	h.start("4.22.0")
	h.settled("4.22.0-3")
	h.sole("4.22.0-3")
	if diff := cmp.Diff(want, h.content()); diff != "" {
		t.Errorf("the cluster (-fresh +now):\n%s", diff)
	}
}

func TestASupersededReleaseIsNotBroughtAnyFurther(t *testing.T) {
	h := newHarness(t)
	h.releaseA()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.release(core(configMap("settings", "2"), configMap("only-2", ""), stuck("slow")), aws(configMap("later-2", "")))
	h.decided("4.22.0-2")
	h.release(core(configMap("settings", "3"), stuck("slower")), aws(crd("machines", "Machine")))
	h.decided("4.22.0-3")
	// The version between is complete but for its Deployment, which the API server now has run.
	slow := h.object("apps/v1/Deployment", namespace, "slow")
	unstructured.RemoveNestedField(slow.Object, "spec", "template", "spec", "nodeSelector")
	h.must(h.Delete(t.Context(), slow))
	held := h.object("v1/ConfigMap", namespace, "only-2")
	h.must(unstructured.SetNestedField(held.Object, "edited", "data", "value"))
	h.must(h.Update(t.Context(), held))
	h.eventually("what the superseded version has is put right", func() error {
		if value, _, _ := unstructured.NestedString(h.object("v1/ConfigMap", namespace, "only-2").Object, "data", "value"); value != "" {
			return fmt.Errorf("it holds %q", value)
		}
		return nil
	})
	if h.object("v1/ConfigMap", namespace, "later-2") != nil || h.object("apps/v1/Deployment", namespace, "slow") != nil {
		t.Error("the superseded version is brought further")
	}
	if h.object("v1/ConfigMap", namespace, "only-a") == nil {
		t.Error("what the current version has is gone")
	}
}

func TestWhatTheNewVersionDropsStaysUntilThatIsComplete(t *testing.T) {
	h := newHarness(t)
	h.releaseA()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.release(core(configMap("settings", "2")), aws(stuck("never")))
	h.reports("InstallerProgressing", "RollingOut", "4.22.0-2", "Deployment openshift-cluster-api/never")
	if h.object("v1/ConfigMap", namespace, "only-a") == nil || h.object(crdKind, "", machines) == nil {
		t.Errorf("an object that the new version drops has gone before that was complete: %v", h.names())
	}
	h.release(core(configMap("settings", "2")), aws())
	h.settled("4.22.0-3")
	if h.object("v1/ConfigMap", namespace, "only-a") != nil || h.object(crdKind, "", machines) != nil {
		t.Errorf("an object that the new version drops is left: %v", h.names())
	}
}

func TestALaterPhaseIsLookedAfterWhileAnEarlierOneDoesNotWork(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws(configMap("last", "1")))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.setNode(false)
	t.Cleanup(func() { h.setNode(true) })
	h.must(h.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{"app": "capi"}, client.GracePeriodSeconds(0)))
	h.waits("4.22.0-1", "Deployment openshift-cluster-api/capi", "0 available")
	h.eventually("the loss is reported", func() error {
		if !meta.IsStatusConditionFalse(h.clusterAPI().Status.Conditions, "Available") {
			return fmt.Errorf("Available is not False")
		}
		return nil
	})
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, "last")))
	h.eventually("an object of a later phase is put right", func() error {
		if h.object("v1/ConfigMap", namespace, "last") == nil {
			return fmt.Errorf("it is not there")
		}
		return nil
	})
	h.setNode(true)
	h.settled("4.22.0-1")
}
