// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
)

// ofRevision returns an object of a revision of cluster-capi-operator; 0 returns one that was handed over.
func ofRevision(name string, number int64) *unstructured.Unstructured {
	object, manager, annotations := settings(name, "red"), v1alpha1.FieldOwner, ""
	object.SetResourceVersion("1")
	if number != 0 {
		manager, annotations = predecessor.FieldOwner, `,"f:annotations":{"f:`+v1alpha1.RevisionAnnotation+`":{}}`
		object.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: strconv.FormatInt(number, 10)})
	}
	object.SetLabels(map[string]string{predecessor.ManagedByLabel: predecessor.ManagedBy, predecessor.ComponentLabel: "aws"})
	fields := &metav1.FieldsV1{}
	if err := fields.UnmarshalJSON([]byte(`{"f:metadata":{"f:labels":{"f:` + predecessor.ComponentLabel + `":{}}` + annotations + `}}`)); err != nil {
		panic(err)
	}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields}})
	return object
}

// collidingWith returns the results of objects of another owner.
func collidingWith(objects ...*unstructured.Unstructured) revisionOutcome {
	var results []machinery.ObjectResult
	for _, object := range objects {
		results = append(results, objectOutcome{action: machinery.ActionCollision, object: object})
	}
	return onePhase(results...)
}

// patchWriter is a writer whose answer to each patch is a function of the name of the object.
func patchWriter(answer func(name string) error) client.Writer {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return answer(o.GetName())
		},
	}).Build()
}

// An object is adopted once it is handed over. One that is handed over already needs no write.
func TestTakeOver_ObjectsOfThePredecessor(t *testing.T) {
	var patched []string
	engine := &Engine{Writer: patchWriter(func(name string) error {
		patched = append(patched, name)
		switch name {
		case "rejected":
			return apierrors.NewServiceUnavailable("down")
		case "deleted":
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("x").GroupResource(), name)
		}
		return nil
	})}
	result := collidingWith(ofRevision("rejected", 7), ofRevision("owned", 7), ofRevision("handed-over", 0), settings("theirs", "red"), ofRevision("deleted", 6))
	core := result.phases[0].(phaseOutcome)
	core.objects = append(core.objects, objectOutcome{action: machinery.ActionIdle, object: ofRevision("idle", 7)})
	result.phases[0] = core
	rev, found := &loadedRevision{name: "4.22.0-1"}, sets.New[string]()
	if err := engine.takeOver(t.Context(), rev, result, found); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v, want that of the rejected write", err)
	}
	if diff := cmp.Diff([]string{"rejected", "owned", "deleted"}, patched); diff != "" {
		t.Errorf("written objects (-want +got):\n%s", diff)
	}
	want := map[string]int64{}
	for name, number := range map[string]int64{"owned": 7, "handed-over": 0, "deleted": 6} {
		want[describe(settings(name, "red"))] = number
	}
	if diff := cmp.Diff(want, rev.fromPredecessor); diff != "" {
		t.Errorf("recorded objects (-want +got):\n%s", diff)
	}
	names := sets.KeySet(want)
	if !found.Equal(names) || !names.Equal(sets.New(rev.adopted...)) || len(rev.adopted) != len(names) {
		t.Errorf("adoptable are %v, adopted %v, want %v", sets.List(found), rev.adopted, sets.List(names))
	}
}

// An adoption takes several reconciles. The number is lost with the first write, so the highest one is kept.
func TestRecordAdoption_KeepsTheNumber(t *testing.T) {
	engine := &Engine{}
	for _, adopted := range []*unstructured.Unstructured{ofRevision("a", 7), ofRevision("a", 0), ofRevision("b", 0), ofRevision("c", 6), ofRevision("c", 8)} {
		engine.recordAdoption("4.22.0-1", adopted)
	}
	engine.recordAdoption("4.22.0-2", ofRevision("a", 0))
	name := func(name string) string { return describe(settings(name, "red")) }
	want := map[string]map[string]int64{"4.22.0-1": {name("a"): 7, name("b"): 0, name("c"): 8}, "4.22.0-2": {name("a"): 0}}
	if diff := cmp.Diff(want, engine.adoptions); diff != "" {
		t.Errorf("adoptions (-want +got):\n%s", diff)
	}
}

// The number of an object that was handed over before is unknown: it does not show a partial installation.
func TestAdoptionMessage_PartialRevision(t *testing.T) {
	for name, test := range map[string]struct {
		adopted map[string]int64
		want    string
	}{
		"none":                {nil, ""},
		"one revision":        {map[string]int64{"a": 7, "b": 7}, "; adopted 2 object(s) of cluster-capi-operator"},
		"an unknown number":   {map[string]int64{"a": 0, "b": 7}, "; adopted 2 object(s) of cluster-capi-operator"},
		"two revisions":       {map[string]int64{"a": 0, "b": 7, "c": 10, "d": 7}, "; adopted 4 object(s) of cluster-capi-operator, which has installed revision 10 partially: 2 of revision 7"},
		"three revisions":     {map[string]int64{"a": 9, "b": 7, "c": 10}, "; adopted 3 object(s) of cluster-capi-operator, which has installed revision 10 partially: 1 of revision 7, 1 of revision 9"},
		"only unknown number": {map[string]int64{"a": 0}, "; adopted 1 object(s) of cluster-capi-operator"},
	} {
		if got := adoptionMessage(test.adopted); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// The hand over changes the managed fields, so a change of another actor in between must be a conflict.
func TestHandOver_OfTheObjectAsRead(t *testing.T) {
	var sent *unstructured.Unstructured
	writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
			data, err := patch.Data(o)
			sent = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Patch"}}
			if err == nil {
				err = sent.UnmarshalJSON(slices.Concat([]byte(`{"apiVersion":"v1","kind":"Patch",`), data[1:]))
			}
			return err
		},
	}).Build()
	if err := (&Engine{Writer: writer}).handOver(t.Context(), ofRevision("a", 7)); err != nil {
		t.Fatal(err)
	}
	if sent.GetResourceVersion() != "1" || len(sent.GetManagedFields()) != 1 || sent.GetManagedFields()[0].Manager != v1alpha1.FieldOwner {
		t.Errorf("the patch is %v, want one of resource version 1 with the managed fields of the installer", sent.Object)
	}
}
