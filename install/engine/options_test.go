// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

func TestEngineOptions_AreUnderstoodByTheEngine(t *testing.T) {
	reconcile, teardown := &types.RevisionReconcileOptions{}, &types.RevisionTeardownOptions{}
	engineOptions.ApplyToRevisionReconcileOptions(reconcile)
	engineOptions.ApplyToRevisionTeardownOptions(teardown)
	unchangedSince(func(client.Object, int64) bool { return true }).ApplyToRevisionReconcileOptions(reconcile)
	phase, removal := &types.PhaseReconcileOptions{}, &types.PhaseTeardownOptions{}
	for _, option := range reconcile.ForPhase("any") {
		option.ApplyToPhaseReconcileOptions(phase)
	}
	for _, option := range teardown.ForPhase("any") {
		option.ApplyToPhaseTeardownOptions(removal)
	}
	object := &types.ObjectReconcileOptions{}
	for _, option := range phase.DefaultObjectOptions {
		option.ApplyToObjectReconcileOptions(object)
	}
	understood := reflect.ValueOf(object).MethodByName("SetUnchangedSince").IsValid()
	if field := reflect.ValueOf(object).Elem().FieldByName("UnchangedSince"); understood && field.IsNil() {
		t.Error("UnchangedSince is not set")
	}
	tests := []struct {
		options any
		field   string
		want    any
	}{
		{phase, "Concurrency", int(engineOptions)},
		{phase, "NoDryRunOfUnchanged", true},
		{removal, "Concurrency", int(engineOptions)},
	}
	ignored := 0
	for _, test := range tests {
		options := reflect.ValueOf(test.options)
		if !options.MethodByName("Set" + test.field).IsValid() {
			ignored++
		} else if field := options.Elem().FieldByName(test.field); field.Interface() != test.want {
			t.Errorf("%s of %T is %v, want %v", test.field, test.options, field, test.want)
		}
	}
	if ignored != 0 && ignored != len(tests) { // the original has none of the options
		t.Errorf("%d of %d options are ignored, want all or none", ignored, len(tests))
	}
}

// settings returns a ConfigMap.
func settings(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"color": color},
	}}
}

func TestSharedWith(t *testing.T) {
	older := revision.Phase{Name: "a", Objects: []*unstructured.Unstructured{settings("same", "red"), settings("changed", "red"), settings("dropped", "red")}}
	rev := Revision{Phases: []revision.Phase{{Name: "a"}, {Name: "b", Objects: []*unstructured.Unstructured{settings("same", "red"), settings("changed", "blue"), settings("added", "red")}}}}
	unchanged := sharedWith(rev, func(number int64) map[object.Identity]*unstructured.Unstructured {
		if number != 1 {
			return nil
		}
		return revision.ByIdentity([]revision.Phase{older})
	})
	for name, want := range map[string]bool{"same": true, "changed": false, "dropped": false, "added": false} {
		if got := unchanged(settings(name, "as applied"), 1); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	if unchanged(settings("same", "red"), 2) {
		t.Error("an object of a revision that does not exist counts as the same")
	}
}

// A manifest with the annotation adopts its object from any owner; an offered object is adopted only without an owner.
func TestAdoptions_Protection(t *testing.T) {
	annotated, offered, other := settings("annotated", "red"), settings("offered", "red"), settings("other", "red")
	annotated.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	phase := revision.Phase{Name: "core", Objects: []*unstructured.Unstructured{annotated, offered, other}}
	how := Apply{Adopt: sets.New(object.IdentityOf(offered), object.IdentityOf(annotated))}
	ofPhase := &types.PhaseReconcileOptions{}
	for _, option := range adoptions(phase, how) {
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
	if adoptions(revision.Phase{Name: "aws", Objects: []*unstructured.Unstructured{other}}, how) != nil {
		t.Error("a phase without such an object has options")
	}
}

func TestNotDeleted_NamesFinalizers(t *testing.T) {
	obj := settings("a", "red")
	if result := notDeleted(obj); result.Status != types.ProbeStatusTrue {
		t.Errorf("an object that is not deleted: %v", result)
	}
	obj.SetDeletionTimestamp(new(metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	obj.SetFinalizers([]string{"x.io/a", "x.io/b"})
	if result := notDeleted(obj); result.Status != types.ProbeStatusFalse || result.Messages[0] != "deleted at 2026-01-02T03:04:05Z, blocked by finalizer x.io/a and x.io/b" {
		t.Errorf("a deleted object: %v", result)
	}
}
