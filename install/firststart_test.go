// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A user who deletes the ClusterAPI object uninstalls everything; no later start creates it again.
func TestCreator_CreatesOnce(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: recordName}}
	for name, test := range map[string]struct {
		existing                 []client.Object
		unreadable               bool
		failed, created, written bool // Start fails; the objects exist after it
	}{
		"the first start":                   {nil, false, false, true, true},
		"a start after the object is gone":  {[]client.Object{record}, false, false, false, true},
		"a start after an interrupted one":  {[]client.Object{cluster}, false, false, true, true},
		"a start without the record's read": {nil, true, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := Scheme()
			if err != nil {
				t.Fatal(err)
			}
			var existing []client.Object
			for _, object := range test.existing {
				existing = append(existing, object.DeepCopyObject().(client.Object))
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(existing...).Build()
			live := interceptor.NewClient(api, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if test.unreadable {
						return apierrors.NewServiceUnavailable("down")
					}
					return c.Get(ctx, key, o, options...)
				},
			})
			if err := (&creator{client: api, live: live}).Start(t.Context()); (err != nil) != test.failed {
				t.Fatalf("error is %v, want one: %t", err, test.failed)
			}
			for object, want := range map[client.Object]bool{cluster: test.created, record: test.written} {
				err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
				if exists := !apierrors.IsNotFound(err); exists != want {
					t.Errorf("%T exists: %t, want %t", object, exists, want)
				}
			}
		})
	}
}
