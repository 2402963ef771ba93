// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// controlledBy returns an object that a version controls.
func controlledBy(t *testing.T, version string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	object.SetLabels(map[string]string{ManagedByLabel: v1alpha1.Prefix})
	if err := owners.SetControllerReference(ownerOf(version), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// engineOf returns an engine whose cache has other objects than its API server.
func engineOf(t *testing.T, cache, live client.WithWatch) *Engine {
	t.Helper()
	revisions, err := NewRevisionEngine(EngineOptions{Scheme: scheme.Scheme, Mapper: live.RESTMapper(), Writer: live, Reader: cache, Live: live})
	if err != nil {
		t.Fatal(err)
	}
	return &Engine{Revisions: revisions, Owners: owners, Cache: informers{}, Reader: cache, Versions: cache, Metadata: cache, Live: live, Writer: live}
}

// A deleted version stays while it is needed. Until the desired version is installed, the objects of an older one may be
// the only ones of a provider; this is decided on live reads.
func TestTeardownRevision_VersionsInUse(t *testing.T) {
	var versions []v1alpha1.Version
	var configMaps []corev1.ConfigMap
	for _, name := range []string{"4.22.0-2", "4.22.0-1", "4.22.0-4", "4.22.0-5", "4.22.0-3"} { // the first is current, the last desired
		version, configMap := storedVersion(t, name, settings("of-"+name, "red"))
		if name == "4.22.0-5" {
			version.InstalledAs, configMap.Annotations[v1alpha1.InstalledAsAnnotation] = "4.22.0-4", "4.22.0-4"
		}
		versions, configMaps = append(versions, version), append(configMaps, configMap)
	}
	live := fake.NewClientBuilder().WithObjects(
		controlledBy(t, "4.22.0-1", settings("of-4.22.0-1", "red")), controlledBy(t, "4.22.0-3", settings("of-4.22.0-3", "red")),
	).Build()
	cache := fake.NewClientBuilder().Build()
	reconciler := &Reconciler{Live: live, Engine: engineOf(t, cache, live)}
	s := stateOf(versions, configMaps...)
	for name, want := range map[string]teardownProgress{
		"4.22.0-2": {keep: true},
		"4.22.0-3": {keep: true},
		"4.22.0-1": {waiting: []string{"version 4.22.0-3 to be installed"}},
		"4.22.0-4": {done: true}, // 4.22.0-5 has its objects
	} {
		got, err := reconciler.teardownRevision(t.Context(), s, name)
		if err != nil {
			t.Fatal(err)
		}
		if got.keep != want.keep || got.done != want.done || !slices.Equal(got.waiting, want.waiting) {
			t.Errorf("version %s: got %+v, want %+v", name, got, want)
		}
	}
}

// After a pass, users can create instances of all CRDs again.
func TestTeardown_LiftsTheGuard(t *testing.T) {
	live := fake.NewClientBuilder().WithObjects(
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: deletionPolicyName}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: deletionPolicyName}},
	).Build()
	engine := engineOf(t, live, live)
	engine.policyMayExist, engine.policyChecked = true, true
	if _, err := engine.teardownOnce(t.Context(), &loadedRevision{name: "4.22.0-1", owner: "4.22.0-1", number: 1}); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
		if err := live.Get(t.Context(), client.ObjectKey{Name: deletionPolicyName}, object); !apierrors.IsNotFound(err) {
			t.Errorf("%T exists after the pass: %v", object, err)
		}
	}
	if engine.policyMayExist || !engine.policyChecked {
		t.Error("the next reconcile would look for the policy again")
	}
}

// A policy that cannot be deleted is deleted by the next reconcile.
func TestLiftDeletionGuard_Retries(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, deletionPolicyName, nil)
	engine := &Engine{Live: answer{forbidden}}
	if err := engine.liftDeletionGuard(t.Context()); err == nil || engine.policyChecked {
		t.Errorf("error %v, checked %t", err, engine.policyChecked)
	}
	engine.Live = answer{apierrors.NewNotFound(schema.GroupResource{}, deletionPolicyName)}
	if err := engine.liftDeletionGuard(t.Context()); err != nil || !engine.policyChecked {
		t.Errorf("error %v, checked %t", err, engine.policyChecked)
	}
	engine.Live = answer{forbidden} // is not asked again
	if err := engine.liftDeletionGuard(t.Context()); err != nil {
		t.Error(err)
	}
}
