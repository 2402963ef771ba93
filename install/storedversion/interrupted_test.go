// SPDX-License-Identifier: Apache-2.0

package storedversion

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/instance"
)

// A list whose token has expired begins again: an instance that was not seen must not keep the dropped version.
func TestMigrator_ExpiredListBeginsAgain(t *testing.T) {
	c := newCluster(t, crd([]string{"v1", "v2"}, "v1", "v2!"), "a", "b", "c")
	expired := false
	live := interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if how := (&client.ListOptions{}).ApplyOptions(options); how.Continue != "" && !expired {
			expired = true
			return apierrors.NewResourceExpired("the token is too old")
		}
		return next.List(ctx, list, options...)
	}})
	m := &Migrator{Cache: c, Live: live, Writer: c, Status: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}, Delay: 1}
	if err := m.Drop(t.Context(), crd(nil, "v2!")); err != nil {
		t.Fatal(err)
	}
	want := []string{"instance a in v2", "instance b in v2", "instance a in v2", "instance b in v2", "instance c in v2", "status"}
	if diff := cmp.Diff(want, c.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// An instance that another client has changed is read again from its own namespace. One that was deleted is done.
func TestMigrator_ReadsAgainAfterAConflict(t *testing.T) {
	for name, test := range map[string]struct {
		deleted bool
		want    []string
	}{
		"changed": {false, []string{"b/x", "b/x"}},
		"deleted": {true, []string{"b/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, crd([]string{"v1", "v2"}, "v1", "v2!"))
			live := interceptor.NewClient(c, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
				how := (&client.ListOptions{}).ApplyOptions(options)
				items := []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "x"}}}
				switch {
				case how.FieldSelector != nil && test.deleted:
					items = nil
				case how.FieldSelector != nil && how.Namespace == "":
					items = append([]metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}}, items...)
				}
				into.(*metav1.PartialObjectMetadataList).Items = items
				return nil
			}})
			var writes []string
			writer := interceptor.NewClient(c, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
				if o.GetName() != "x" {
					return nil // the role that permits the requests
				}
				writes = append(writes, client.ObjectKeyFromObject(o).String())
				if len(writes) == 1 {
					return apierrors.NewConflict(schema.GroupResource{Group: "x.io", Resource: "machines"}, "x", errors.New("changed"))
				}
				return nil
			}})
			m := &Migrator{Cache: c, Live: live, Writer: writer, Status: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}, Delay: 1}
			if err := m.Drop(t.Context(), crd(nil, "v2!")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
