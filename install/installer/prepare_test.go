// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

func deploymentIn(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": namespace, "name": name}}}
}

// A Deployment with the same name that stays, or has no successor, is not moved.
func TestMovedDeployments(t *testing.T) {
	former := revision.ByIdentity([]revision.Phase{{Objects: []*unstructured.Unstructured{
		deploymentIn("capi-system", "capa"), deploymentIn("capi-system", "capi"), deploymentIn("capi-system", "manager"), deploymentIn("capi-system", "dropped"),
	}}})
	changed := revision.Phase{Objects: []*unstructured.Unstructured{deploymentIn("capa-system", "capa"), deploymentIn("capi-system", "capi"), deploymentIn("capd-system", "manager")}}
	others := []revision.Phase{{Objects: []*unstructured.Unstructured{deploymentIn("capi-system", "manager")}}}
	want := []object.Identity{{GroupKind: object.Deployment, Namespace: "capi-system", Name: "capa"}}
	if diff := cmp.Diff(want, movedDeployments(former, changed, append(others, changed))); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
}

// Only a Deployment of the installer is deleted, and the successor waits until it is gone.
func TestTrial_StopsMovedDeployment(t *testing.T) {
	own, foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: "capa", UID: "1", Finalizers: []string{"foregroundDeletion"}}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: "capz", UID: "2"}}
	if err := engine.NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator).Set("4.22.0-1", own); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(own, foreign).Build()
	trial := trial{s: state{namespaces: v1alpha1.OpenShiftNamespaces}, guards: &guard.Guards{Live: cluster, Writer: cluster}}
	exists := func(name string) bool {
		t.Helper()
		found, err := trial.stop(t.Context(), object.Identity{GroupKind: object.Deployment, Namespace: "capi-system", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if first, second := exists("capa"), exists("capa"); !first || !second {
		t.Error("the successor does not wait for the pods of the deleted Deployment")
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil || own.DeletionTimestamp == nil {
		t.Fatalf("not deleted: %v", err)
	}
	own.Finalizers = nil
	if err := cluster.Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if exists("capa") || exists("capz") {
		t.Error("waiting for a Deployment that is gone, or belongs to another actor")
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.DeletionTimestamp != nil {
		t.Errorf("the Deployment of another actor was deleted: %v", err)
	}
	if out := (attempt{err: waitingError("waiting")}).outcome(); out.Recheck != waitingRecheck || errors.As(out.Err, new(waitingError)) {
		t.Errorf("outcome %+v", out)
	}
}

// The message has a command only for objects that the API server would create, and that it rejects for no other reason.
func TestImmutable_OnlyWhatCouldBeCreated(t *testing.T) {
	t.Parallel()
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")})
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "configmaps"}, "a")
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("denied"))
	desired := settled("a", "blue")
	const command = "kubectl delete configmap a"
	for name, test := range map[string]struct {
		errs   []error
		create error
		want   bool
	}{
		"an immutable field":              {[]error{invalid}, exists, true},
		"a field that is always invalid":  {[]error{invalid}, invalid, false},
		"an immutable field and a denial": {[]error{invalid, denied}, exists, false},
		"a create that is denied":         {[]error{invalid}, denied, false},
		"a denial":                        {[]error{denied}, exists, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
				if all := (&client.CreateOptions{}).ApplyOptions(options); len(all.DryRun) == 0 {
					t.Error("an object is created")
				}
				return test.create
			}})
			rejection := &engine.Rejection{Phase: "core", Objects: []engine.RejectedObject{{Identity: object.IdentityOf(desired), Errors: test.errs}}}
			a := attempt{plan: plan{phases: []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{desired}}}}, result: engine.Result{Phases: []engine.Phase{{Name: "core", Rejection: rejection}}}}
			p := &guard.Guards{Writer: server}
			err := withDeletions(rejection, immutable(t.Context(), p, a.plan, a.result))
			if got := strings.Contains(err.Error(), command); got != test.want || !errors.Is(err, rejection) {
				t.Errorf("%v, want the command: %t", err, test.want)
			}
		})
	}
}
