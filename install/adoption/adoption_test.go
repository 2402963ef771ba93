// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// settings returns a ConfigMap.
func settings(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
}

// found returns the result of an object that exists.
func found(action engine.Action, actual *unstructured.Unstructured) engine.Object {
	return engine.Object{
		Reference: engine.Reference{Identity: object.IdentityOf(actual), APIVersion: actual.GroupVersionKind().Version},
		Action:    action, Actual: actual, Adoptable: v1alpha1.AllowsAdoption(actual.GetAnnotations()),
	}
}

// collisions returns the results of objects of another owner.
func collisions(objects ...*unstructured.Unstructured) (out []engine.Object) {
	for _, actual := range objects {
		out = append(out, found(engine.Collision, actual))
	}
	return out
}

// ofRevision returns an object of a revision of cluster-capi-operator; 0 returns one that was handed over.
func ofRevision(name string, number int64) *unstructured.Unstructured {
	out, manager, annotations := settings(name), v1alpha1.FieldOwner, ""
	out.SetResourceVersion("1")
	if number != 0 {
		manager, annotations = predecessor.FieldOwner, `,"f:annotations":{"f:`+v1alpha1.RevisionAnnotation+`":{}}`
		out.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: strconv.FormatInt(number, 10)})
	}
	out.SetLabels(map[string]string{predecessor.ManagedByLabel: predecessor.ManagedBy, predecessor.ComponentLabel: "aws"})
	fields := &metav1.FieldsV1{}
	if err := fields.UnmarshalJSON([]byte(`{"f:metadata":{"f:labels":{"f:` + predecessor.ComponentLabel + `":{}}` + annotations + `}}`)); err != nil {
		panic(err)
	}
	out.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields}})
	return out
}

// patchWriter is a writer whose answer to each patch is a function of the object and the patch.
func patchWriter(answer func(client.Object, client.Patch) error) client.Writer {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
			return answer(o, patch)
		},
	}).Build()
}

func identities(names ...string) []object.Identity {
	var out []object.Identity
	for _, name := range names {
		out = append(out, object.IdentityOf(settings(name)))
	}
	return out
}

// An object of the predecessor is adopted once it is handed over. One that is handed over already needs no write.
func TestDecide_ObjectsOfThePredecessor(t *testing.T) {
	var patched []string
	adopter := &Adopter{Writer: patchWriter(func(o client.Object, _ client.Patch) error {
		patched = append(patched, o.GetName())
		switch o.GetName() {
		case "rejected":
			return apierrors.NewServiceUnavailable("down")
		case "deleted":
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("x").GroupResource(), o.GetName())
		}
		return nil
	})}
	colliding := collisions(ofRevision("rejected", 7), ofRevision("owned", 7), ofRevision("handed-over", 0), settings("theirs"), ofRevision("deleted", 6))
	if decision, err := adopter.Decide(t.Context(), colliding, Candidates{Namespace: v1alpha1.KubernetesNamespaces.Operator}); err != nil || len(decision.Adopt)+len(patched) > 0 || Possible(colliding[1], Candidates{}) {
		t.Errorf("outside OpenShift: %v, %v, written %v", decision, err, patched)
	}
	decision, err := adopter.Decide(t.Context(), colliding, Candidates{Namespace: v1alpha1.OpenShiftNamespaces.Operator})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v, want that of the rejected write", err)
	}
	if diff := cmp.Diff([]string{"rejected", "owned", "deleted"}, patched); diff != "" {
		t.Errorf("written objects (-want +got):\n%s", diff)
	}
	want := identities("owned", "handed-over", "deleted")
	taken := []string{"ConfigMap owned of revision 7", "ConfigMap handed-over", "ConfigMap deleted of revision 6"}
	if diff := cmp.Diff(taken, decision.Taken); diff != "" || !decision.Adopt.Equal(sets.New(want...)) {
		t.Errorf("taken (-want +got):\n%s\nadopted %v", diff, decision.Adopt)
	}
}

// An annotated object, a recreated role and a compatible CRD are adopted; others are not.
func TestDecide_Others(t *testing.T) {
	annotated, crd, refused := settings("annotated"), settings("compatible.x.io"), settings("incompatible.x.io")
	annotated.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	crd.SetGroupVersionKind(object.CRDVersion)
	refused.SetGroupVersionKind(object.CRDVersion)
	former := Candidates{
		Numbers: map[string]int64{"compatible.x.io": 2, "incompatible.x.io": 1, "theirs": 1},
		Incompatibility: func(_ context.Context, name string, number int64) (string, error) {
			return map[bool]string{false: "field x of version " + strconv.FormatInt(number, 10)}[name == "compatible.x.io"], nil
		},
	}
	objects := collisions(annotated, clusterRole("recreated", nil), crd, refused, settings("theirs"))
	decision, err := (&Adopter{}).Decide(t.Context(), objects, former)
	if err != nil || !decision.Adopt.Equal(sets.New(objects[0].Identity, objects[1].Identity, objects[2].Identity)) {
		t.Errorf("adopted %v: %v", decision.Adopt, err)
	}
	if diff := cmp.Diff([]string{"CustomResourceDefinition incompatible.x.io is not adopted: field x of version 1"}, decision.Refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	for i, want := range []bool{true, true, true, true, false} {
		if got := Possible(objects[i], former); got != want {
			t.Errorf("%s may be adopted: %t, want %t", objects[i], got, want)
		}
	}
	down := errors.New("down")
	former.Incompatibility = func(context.Context, string, int64) (string, error) { return "", down }
	if _, err := (&Adopter{}).Decide(t.Context(), objects, former); !errors.Is(err, down) {
		t.Errorf("error is %v, want that of the check", err)
	}
}

// The hand over changes the managed fields, so a change of another actor in between must be a conflict.
func TestHandOver_OfTheObjectAsRead(t *testing.T) {
	var sent *unstructured.Unstructured
	writer := patchWriter(func(o client.Object, patch client.Patch) error {
		data, err := patch.Data(o)
		sent = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Patch"}}
		if err == nil {
			err = sent.UnmarshalJSON(slices.Concat([]byte(`{"apiVersion":"v1","kind":"Patch",`), data[1:]))
		}
		return err
	})
	if err := (&Adopter{Writer: writer}).handOver(t.Context(), ofRevision("a", 7)); err != nil {
		t.Fatal(err)
	}
	if sent.GetResourceVersion() != "1" || len(sent.GetManagedFields()) != 1 || sent.GetManagedFields()[0].Manager != v1alpha1.FieldOwner {
		t.Errorf("the patch is %v, want one of resource version 1 with the managed fields of the installer", sent.Object)
	}
}

// Only an object that the version has adopted loses the annotation. The others may be adopted later.
func TestFinish_OfAdoptedObjects(t *testing.T) {
	var patched []string
	adopter := &Adopter{Writer: patchWriter(func(o client.Object, patch client.Patch) error {
		patched = append(patched, o.GetName())
		if o.GetName() == "adopted" {
			const want = `{"metadata":{"annotations":{"capi-operator.openshift.io/adopt-existing":null,"cert-manager.io/inject-ca-from":null},"labels":{"kustomize.toolkit.fluxcd.io/name":null},"uid":"x"}}`
			if got, err := patch.Data(o); err != nil || string(got) != want {
				t.Errorf("patch is %s, %v; want %s", got, err, want)
			}
		}
		return map[string]error{"rejected": apierrors.NewServiceUnavailable("down")}[o.GetName()]
	})}
	adoptable := func(name string, action engine.Action, owner string) engine.Object {
		out := found(action, settings(name))
		out.Adoptable, out.Owner, out.UID = name != "not annotated", engine.VersionOwner(owner), "x"
		out.Instructions = []engine.Instruction{
			{Name: "cert-manager.io/inject-ca-from"}, {Name: "argocd.argoproj.io/tracking-id"},
			{Name: "kustomize.toolkit.fluxcd.io/name", Label: true}, {Name: "kapp.k14s.io/app", Label: true},
		}
		return out
	}
	result := engine.Result{Phases: []engine.Phase{{Objects: []engine.Object{
		adoptable("collides", engine.Collision, "4.22.0-1"), adoptable("of another version", engine.Progressed, "4.22.0-2"),
		adoptable("not annotated", engine.Idle, "4.22.0-1"), adoptable("rejected", engine.Updated, "4.22.0-1"), adoptable("adopted", engine.Idle, "4.22.0-1"),
	}}}}
	inManifest := settings("adopted")
	inManifest.SetAnnotations(map[string]string{"argocd.argoproj.io/tracking-id": "x"})
	inManifest.SetLabels(map[string]string{"kapp.k14s.io/app": "x"})
	rev := engine.Revision{Name: "4.22.0-3", Phases: []revision.Phase{{Name: "core", Part: revision.Part{Owner: "4.22.0-1"}, Objects: []*unstructured.Unstructured{inManifest}}}}
	if err := adopter.Finish(t.Context(), rev, result); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v, want that of the rejected patch", err)
	}
	if diff := cmp.Diff([]string{"rejected", "adopted"}, patched); diff != "" {
		t.Errorf("patched objects (-want +got):\n%s", diff)
	}
}

// The garbage collector must not delete an adopted object together with its former owner.
func TestFinish_RemovesOwnerReferences(t *testing.T) {
	var sent string
	adopter := &Adopter{Writer: patchWriter(func(o client.Object, patch client.Patch) error {
		data, err := patch.Data(o)
		sent = string(data)
		return err
	})}
	owned := found(engine.Idle, settings("owned"))
	owned.Adoptable, owned.Referenced, owned.Owner, owned.UID = true, true, engine.VersionOwner("4.22.0-1"), "x"
	rev := engine.Revision{Name: "4.22.0-1", Phases: []revision.Phase{{Name: "core", Part: revision.Part{Owner: "4.22.0-1"}}}}
	if err := adopter.Finish(t.Context(), rev, engine.Result{Phases: []engine.Phase{{Objects: []engine.Object{owned}}}}); err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"annotations":{"` + v1alpha1.AdoptAnnotation + `":null},"ownerReferences":null,"uid":"x"}}`; sent != want {
		t.Errorf("patch is %s, want %s", sent, want)
	}
}

func TestFormerly(t *testing.T) {
	versions := []v1alpha1.Version{{Revision: 1, UnmanagedCRDs: []string{"a", "b"}}, {Revision: 2, UnmanagedCRDs: []string{"a"}}}
	if diff := cmp.Diff(map[string]int64{"a": 2}, Formerly(versions, []string{"b"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// clusterRole returns a ClusterRole with further fields.
func clusterRole(name string, fields map[string]any) *unstructured.Unstructured {
	role := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		role.Object[key] = value
	}
	role.SetAPIVersion("rbac.authorization.k8s.io/v1")
	role.SetKind("ClusterRole")
	role.SetName(name)
	return role
}

func TestRecreatedByAggregation(t *testing.T) {
	rules := map[string]any{"rules": []any{map[string]any{"verbs": []any{"get"}}}}
	managed := func(managers ...string) *unstructured.Unstructured {
		role := clusterRole("a", rules)
		var entries []metav1.ManagedFieldsEntry
		for _, manager := range managers {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager})
		}
		role.SetManagedFields(entries)
		return role
	}
	labelled := clusterRole("a", nil)
	labelled.SetLabels(map[string]string{"mine": "yes"})
	other := clusterRole("a", nil)
	other.SetKind("Role")
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"only fields of the controller":   {managed("clusterrole-aggregation-controller"), true},
		"also fields of another manager":  {managed("clusterrole-aggregation-controller", "kubectl"), false},
		"an empty role":                   {clusterRole("a", nil), true},
		"rules without a manager":         {clusterRole("a", rules), false},
		"an aggregation rule":             {clusterRole("a", map[string]any{"aggregationRule": map[string]any{}}), false},
		"a label":                         {labelled, false},
		"an empty object of another kind": {other, false},
		"an unknown object":               {nil, false},
	} {
		if got := RecreatedByAggregation(test.object); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
