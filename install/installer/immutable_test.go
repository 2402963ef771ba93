// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

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
			p := &Guards{Writer: server}
			err := withDeletions(rejection, p.immutable(t.Context(), a.plan, a.result))
			if got := strings.Contains(err.Error(), command); got != test.want || !errors.Is(err, rejection) {
				t.Errorf("%v, want the command: %t", err, test.want)
			}
		})
	}
}
