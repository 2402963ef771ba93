// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// clusterScheme has the kinds that the reconciler reads.
func clusterScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	out := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, apiextensionsv1.AddToScheme, admissionv1.AddToScheme, rbacv1.AddToScheme, configv1.Install, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// controlledBy returns an object that a version controls.
func controlledBy(t *testing.T, version string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	object.SetLabels(map[string]string{engine.ManagedByLabel: v1alpha1.Prefix})
	if err := engine.NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator).Set(version, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// watches start, or fail.
type watches struct{ failed error }

func (w watches) Watch(context.Context, client.Object, sets.Set[schema.GroupVersionKind]) error {
	return w.failed
}
func (watches) Free(context.Context, client.Object) error { return nil }

// reconcilerOf returns a reconciler whose cache has other objects than its API server.
func reconcilerOf(t *testing.T, cache, live client.WithWatch, starts watches) *Reconciler {
	t.Helper()
	applier, err := engine.Assemble(engine.Parts{
		Connection: engine.Connection{
			Scheme: scheme.Scheme, Mapper: live.RESTMapper(), Live: live, Writer: live,
			Namespace: v1alpha1.OpenShiftNamespaces.Operator, Namespaces: engine.Namespaces{v1alpha1.OpenShiftNamespaces.Operand},
		},
		Discovery: fixture.Schemas{}, Watches: starts, Reader: cache,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Reconciler{
		Namespaces: v1alpha1.OpenShiftNamespaces,
		Client:     live, Live: live, Reporter: &status.Reporter{Controller: status.Installer, Client: live, Live: live},
		Remover: removal.Remover{Engine: applier, Live: live, Writer: live, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: live, Writer: live}},
		Applier: Applier{
			Engine: applier, Adopter: adoption.Adopter{Writer: live}, Checker: compatibility.Checker{Metadata: live, Live: live},
			Certificates: servingcert.Issuer{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Reader: live, Writer: live},
		},
	}
}

// A deleted version stays while it is needed. Until the desired version is installed, the objects of an older one may be
// the only ones of a provider; this is decided on live reads.
func TestTeardownRevision_VersionsInUse(t *testing.T) {
	var versions []v1alpha1.Version
	var configMaps []corev1.ConfigMap
	for _, name := range []string{"4.22.0-2", "4.22.0-1", "4.22.0-4", "4.22.0-5", "4.22.0-7", "4.22.0-8", "4.22.0-3"} { // the first is current, the last desired
		version, configMap := storedVersion(t, name, settings("of-"+name, "red"))
		if name == "4.22.0-8" {
			version, configMap = storedVersion(t, name, settings("of-"+name, "red"), settings("of-4.22.0-3", "red"))
		}
		if name == "4.22.0-5" {
			version.InstalledAs, configMap.Annotations[v1alpha1.InstalledAsAnnotation] = "4.22.0-4", "4.22.0-4"
		}
		versions, configMaps = append(versions, version), append(configMaps, configMap)
	}
	requirement := &unstructured.Unstructured{}
	requirement.SetGroupVersionKind(compatibility.RequirementVersionKind)
	requirement.SetName("of-4.22.0-4")
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(
		controlledBy(t, "4.22.0-4", requirement),
		controlledBy(t, "4.22.0-1", settings("of-4.22.0-1", "red")), controlledBy(t, "4.22.0-7", settings("of-4.22.0-7", "red")),
		controlledBy(t, "4.22.0-8", settings("of-4.22.0-8", "red")), controlledBy(t, "4.22.0-8", settings("of-4.22.0-3", "red")),
	).Build()
	cache := fake.NewClientBuilder().Build()
	reconciler := reconcilerOf(t, cache, live, watches{})
	s := stateOf(versions, configMaps...)
	for name, want := range map[string]teardownProgress{
		"4.22.0-2": {keep: true},
		"4.22.0-3": {keep: true},
		"4.22.0-1": {Progress: removal.Progress{Waiting: []string{"version 4.22.0-3 to be installed"}}},
		"4.22.0-4": {done: true}, // 4.22.0-5 has its objects
		// No other version has the object.
		"4.22.0-7": {Progress: removal.Progress{Waiting: []string{"ConfigMap of-4.22.0-7"}}},
		// The desired version has one of its objects.
		"4.22.0-8": {Progress: removal.Progress{Waiting: []string{"version 4.22.0-3 to be installed"}}},
	} {
		got, err := reconciler.teardown(s).revision(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got.keep != want.keep || got.done != want.done || !slices.Equal(got.Waiting, want.Waiting) {
			t.Errorf("version %s: got %+v, want %+v", name, got, want)
		}
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(requirement), requirement); err != nil {
		t.Errorf("4.22.0-5 has the objects of 4.22.0-4, but not its requirement: %v", err)
	}
}

// A removal that was interrupted, because the desired version needs an object, ends the conversion of a retained CRD whose Service is gone.
func TestTeardownRevision_InterruptedEndsConversion(t *testing.T) {
	crds, err := yamldoc.Objects([]byte(fixture.CRD("machines", "Machine", fixture.Conversion, "v1beta1", "v1beta2")))
	if err != nil {
		t.Fatal(err)
	}
	current, currentContent := storedVersion(t, "4.22.0-1", settings("other", "red"))
	_, old := storedVersion(t, "4.22.0-2", settings("shared", "red"), crds[0])
	desired, desiredContent := storedVersion(t, "4.22.0-3", settings("shared", "blue"))
	retained := crds[0].DeepCopy()
	retained.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(controlledBy(t, "4.22.0-2", settings("shared", "red")), retained).Build()
	down := reconcilerOf(t, live, live, watches{}).teardown(stateOf([]v1alpha1.Version{current, desired}, currentContent, old, desiredContent))
	got, err := down.revision(t.Context(), "4.22.0-2")
	if err := errors.Join(err, live.Get(t.Context(), client.ObjectKeyFromObject(retained), retained)); err != nil {
		t.Fatal(err)
	}
	if strategy := object.TextAt(retained.Object, "spec", "conversion", "strategy"); strategy != "None" || len(got.Waiting) == 0 {
		t.Errorf("the strategy is %q, the removal waits for %q", strategy, got.Waiting)
	}
}

// A version stays, and is reported, until its last object is gone. Then its finalizer is removed, and no other.
func TestTeardown_WaitsForObjects(t *testing.T) {
	current, configMap := storedVersion(t, "4.22.0-2", settings("new", "red"))
	_, old := storedVersion(t, "4.22.0-1", settings("old", "red"))
	old.DeletionTimestamp, old.Finalizers = new(metav1.Now()), []string{v1alpha1.TeardownFinalizer, "example.com/other"}
	blocked := controlledBy(t, "4.22.0-1", settings("old", "red"))
	blocked.SetFinalizers([]string{"example.com/blocks"})
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(blocked, &old).Build()
	down := reconcilerOf(t, live, live, watches{}).teardown(stateOf([]v1alpha1.Version{current}, configMap, old))
	for range 2 {
		got := down.deleted(t.Context())
		if got.Reason != reason.TearingDown || !strings.Contains(got.Message, "removing version 4.22.0-1: waiting for ConfigMap old") || got.Phases["4.22.0-1"] == nil {
			t.Errorf("while an object exists: %+v", got)
		}
	}
	if err := errors.Join(live.Get(t.Context(), client.ObjectKeyFromObject(blocked), blocked), live.Get(t.Context(), client.ObjectKeyFromObject(&old), &old)); err != nil || len(old.Finalizers) != 2 {
		t.Fatalf("finalizers %v, %v", old.Finalizers, err)
	}
	blocked.SetFinalizers(nil)
	if err := live.Update(t.Context(), blocked); err != nil {
		t.Fatal(err)
	}
	if got := down.deleted(t.Context()); got.Reason != reason.AsExpected {
		t.Errorf("without objects: %+v", got)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(&old), &old); err != nil || !slices.Equal(old.Finalizers, []string{"example.com/other"}) {
		t.Errorf("finalizers %v, %v", old.Finalizers, err)
	}
}

// A version without objects stays while a former leader can still write. An object that it writes is removed, although the cache does not show it.
func TestTeardown_WaitsForLateWrites(t *testing.T) {
	current, configMap := storedVersion(t, "4.22.0-2", settings("new", "red"))
	_, old := storedVersion(t, "4.22.0-1", settings("late", "red"))
	old.DeletionTimestamp, old.Finalizers = new(metav1.Now()), []string{v1alpha1.TeardownFinalizer}
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(&old).Build()
	reconciler := reconcilerOf(t, fake.NewClientBuilder().Build(), live, watches{})
	until := time.Now().Add(time.Minute)
	reconciler.LateWrites = func() time.Time { return until }
	s := stateOf([]v1alpha1.Version{current}, configMap, old)
	expect := func(want string, recheck time.Duration) {
		t.Helper()
		got := reconciler.teardown(s).deleted(t.Context())
		if !strings.Contains(got.Message, want) || got.Recheck.Round(time.Second) != recheck || (want == "") != (got.Reason == reason.AsExpected) {
			t.Errorf("%+v, want to wait for %q", got, want)
		}
	}
	expect("late writes of a former leader", time.Minute)
	if err := live.Create(t.Context(), controlledBy(t, "4.22.0-1", settings("late", "red"))); err != nil {
		t.Fatal(err)
	}
	expect("ConfigMap late", 0)
	expect("late writes of a former leader", time.Minute)
	until = time.Now()
	expect("", 0)
}

// An uninstall removes no object of a version while a manager of another one runs.
func TestDeleted_StopsEachVersionFirst(t *testing.T) {
	manager := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "capi", "name": "manager"},
			"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "manager"}}},
		}}
	}
	first, firstMap := storedVersion(t, "4.22.0-1", settings("a", "red"))
	second, secondMap := storedVersion(t, "4.22.0-2", manager())
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	s.Cluster.DeletionTimestamp = new(metav1.Now())
	for i := range s.ConfigMaps {
		s.ConfigMaps[i].DeletionTimestamp, s.ConfigMaps[i].Finalizers = s.Cluster.DeletionTimestamp, []string{v1alpha1.TeardownFinalizer}
	}
	types := clusterScheme(t)
	if err := appsv1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "capi", Name: "manager-1", Labels: map[string]string{"app": "manager"}}}
	cluster := fake.NewClientBuilder().WithScheme(types).WithObjects(
		controlledBy(t, "4.22.0-1", settings("a", "red")), controlledBy(t, "4.22.0-2", manager()), pod).Build()
	remaining := func() int {
		found := &corev1.ConfigMapList{}
		if err := cluster.List(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		return len(found.Items)
	}
	unreadable := s // the managers of its second version may run
	unreadable.ConfigMaps = slices.Clone(s.ConfigMaps)
	unreadable.ConfigMaps[1].BinaryData = nil
	if outcome := reconcilerOf(t, cluster, cluster, watches{}).teardown(unreadable).deleted(t.Context()); outcome.Err == nil || remaining() != 1 {
		t.Errorf("outcome %+v with %d ConfigMaps, want an error that stops the removal", outcome, remaining())
	}
	removal := reconcilerOf(t, cluster, cluster, watches{}).teardown(s)
	for _, want := range []string{"Deployment capi/manager", "the pods of Deployment capi/manager"} {
		outcome := removal.deleted(t.Context())
		if outcome.Reason != reason.TearingDown || outcome.Message != "removing version 4.22.0-2: waiting for "+want || outcome.Recheck != podsRecheck || remaining() != 1 {
			t.Errorf("outcome %+v with %d ConfigMaps, want to wait for %s", outcome, remaining(), want)
		}
	}
	if err := cluster.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if removal.deleted(t.Context()); remaining() != 0 {
		t.Error("the ConfigMap is not removed after the end of the pod")
	}
}
