// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
)

// A teardown deletes an object before those that it depends on.
func TestReversed_ObjectsOfEachPhase(t *testing.T) {
	phases := []revision.Phase{planned("a", "1", "2", "3"), planned("b", "4", "5")}
	got := reversed(phases)
	want := []string{"ConfigMap 3", "ConfigMap 2", "ConfigMap 1", "ConfigMap 5", "ConfigMap 4"}
	if diff := cmp.Diff(want, objectNames(got)); diff != "" || got[0].Name != "a" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if names := objectNames(phases); names[0] != "ConfigMap 1" {
		t.Errorf("the phases of the plan are changed: %v", names)
	}
}

func TestAsApplied(t *testing.T) {
	object := func(annotations, rest map[string]any) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": annotations}}}
		for key, value := range rest {
			out.Object[key] = value
		}
		return out
	}
	rules := []any{map[string]any{"verbs": []any{"get"}}}
	adopted := map[string]any{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways, "mine": "yes"}
	for name, test := range map[string]struct{ manifest, want *unstructured.Unstructured }{
		"an adopt annotation": {object(adopted, nil), object(map[string]any{"mine": "yes"}, nil)},
		"an aggregated role":  {object(nil, map[string]any{"aggregationRule": map[string]any{}, "rules": rules}), object(nil, map[string]any{"aggregationRule": map[string]any{}})},
		"another role":        {object(nil, map[string]any{"rules": rules}), object(nil, map[string]any{"rules": rules})},
	} {
		before := test.manifest.DeepCopy()
		if diff := cmp.Diff(test.want, asApplied(test.manifest)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, test.manifest); diff != "" {
			t.Errorf("%s: the plan is changed:\n%s", name, diff)
		}
	}
}

// The controllers of other actors are not versions: their objects are not taken from them.
func TestIsVersion(t *testing.T) {
	owner := ownerOf("4.22.0-1")
	for want, owners := range map[bool][]metav1.OwnerReference{
		true: {{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
		false: {
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: "1-2-3"},
			{APIVersion: "v1", Kind: "ConfigMap", Name: "4.22.0-2", UID: owner.UID},
			{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID},
		},
	} {
		for _, ref := range owners {
			if got := isVersion(ref); got != want {
				t.Errorf("%v is a version: %t, want %t", ref, got, want)
			}
		}
	}
}

// A manifest with the annotation adopts its object from any owner; an offered object is adopted only without an owner.
func TestAdoptions_Protection(t *testing.T) {
	phase := planned("core", "annotated", "offered", "other")
	phase.Objects[0].SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	options := &types.RevisionReconcileOptions{}
	for _, option := range adoptions([]revision.Phase{phase, planned("aws", "last")}, sets.New("ConfigMap offered", "ConfigMap annotated")) {
		option.ApplyToRevisionReconcileOptions(options)
	}
	ofPhase := &types.PhaseReconcileOptions{}
	for _, option := range options.ForPhase("core") {
		option.ApplyToPhaseReconcileOptions(ofPhase)
	}
	for i, want := range []types.CollisionProtection{types.CollisionProtectionNone, types.CollisionProtectionIfNoController, ""} {
		ofObject := &types.ObjectReconcileOptions{}
		for _, option := range ofPhase.ForObject(phase.Objects[i]) {
			option.ApplyToObjectReconcileOptions(ofObject)
		}
		if ofObject.CollisionProtection != want {
			t.Errorf("%s: protection %q, want %q", phase.Objects[i].GetName(), ofObject.CollisionProtection, want)
		}
	}
	if len(options.ForPhase("aws")) != 0 {
		t.Error("a phase without such an object has options")
	}
}

// After a change of the authority, the phases are compared again: they contain its CA bundle.
func TestEngine_TrustIsPartOfTheKey(t *testing.T) {
	keys := sets.New[string]()
	for range 2 { // each has another authority
		cluster := fake.NewClientBuilder().Build()
		engine := &Engine{Certificates: servingcert.Issuer{Reader: cluster, Writer: cluster}}
		webhook := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "a"},
			"webhooks": []any{map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "a"}}}},
		}}
		webhook.SetAnnotations(map[string]string{v1alpha1.InjectCABundleAnnotation: "true"})
		rev := &loadedRevision{key: "digest", contents: contentsOf([]revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{webhook}}}, nil)}
		if err := engine.Certificates.Prepare(t.Context(), rev.requesting); err != nil {
			t.Fatal(err)
		}
		if err := engine.trust(t.Context(), rev); err != nil || rev.authority == "" {
			t.Fatalf("authority %q: %v", rev.authority, err)
		}
		keys.Insert(rev.key)
	}
	if len(keys) != 2 {
		t.Error("the key is the same with another authority")
	}
}
