// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// answer is a reader whose answer to each request is an error.
type answer struct{ error }

func (a answer) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.error
}
func (a answer) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.error }

// cached are the namespaces of the cache in tests.
var cached = Namespaces{v1alpha1.OpenShiftNamespaces.Operand, "capi-system", "capa-system"}

// Objects in other namespaces are read from the API server. Without read access, they do not exist.
func TestReader_Namespaces(t *testing.T) {
	forbidden, unavailable := apierrors.NewForbidden(schema.GroupResource{}, "x", nil), apierrors.NewServiceUnavailable("down")
	fromCache := errors.New("read from the cache")
	for namespace, fast := range map[string]bool{"": true, "capi-system": true, "capa-system": true, v1alpha1.OpenShiftNamespaces.Operator: false, "kube-system": false} {
		key := client.ObjectKey{Namespace: namespace, Name: "x"}
		err := Reader{answer{fromCache}, answer{forbidden}, cached}.Get(t.Context(), key, settings("x", ""))
		if fast != errors.Is(err, fromCache) || !fast && !apierrors.IsNotFound(err) {
			t.Errorf("namespace %q: got %v, want the answer of the cache: %t, else not found", namespace, err, fast)
		}
	}
	if err := (Reader{Live: answer{unavailable}}).Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "x"}, settings("x", "")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want the error of the API server", err)
	}
}
