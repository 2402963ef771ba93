// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// newCluster returns a cluster that counts the reads of roles and of bindings.
func newCluster(reads *int) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			*reads++
			return next.Get(ctx, key, into, options...)
		},
	}).Build()
}

// left returns the rules of the role; nil if it or its binding does not exist.
func left(t *testing.T, cluster client.Reader) []rbacv1.PolicyRule {
	t.Helper()
	key, role := client.ObjectKey{Name: instancesRole}, &rbacv1.ClusterRole{}
	if err := errors.Join(cluster.Get(t.Context(), key, role), cluster.Get(t.Context(), key, &rbacv1.ClusterRoleBinding{})); err != nil {
		return nil
	}
	return role.Rules
}

// The permission exists from a forbidden request until the end of the pass. Then no request is made for it.
func TestAccess_PermissionOfOnePass(t *testing.T) {
	reads := 0
	cluster := newCluster(&reads)
	access := &Access{Live: cluster, Writer: cluster}
	group := func(name string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{name}, Resources: []string{"*"}, Verbs: []string{"list"}}}
	}
	forbiddenOnce := func() func(context.Context) error {
		calls := 0
		return func(context.Context) error {
			if calls++; calls == 1 {
				return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
			}
			return nil
		}
	}
	if err := access.Permitted(t.Context(), group("a"), func(context.Context) error { return nil }); err != nil || left(t, cluster) != nil {
		t.Errorf("a permitted request: %v, rules %v", err, left(t, cluster))
	}
	for range 2 { // an earlier process may have left the role
		reads = 0
		if err := access.Withdraw(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if reads != 0 {
		t.Errorf("%d reads at the second pass without a permission, want none", reads)
	}
	for _, name := range []string{"a", "b", "b"} {
		if err := access.Permitted(t.Context(), group(name), forbiddenOnce()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(append(group("a"), group("b")...), left(t, cluster)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	access.Writer = interceptor.NewClient(cluster, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return errors.New("unavailable")
	}})
	if err := access.Withdraw(t.Context()); err == nil || left(t, cluster) == nil {
		t.Errorf("a failed deletion: %v, rules %v", err, left(t, cluster))
	}
	access.Writer = cluster
	if err := access.Withdraw(t.Context()); err != nil || left(t, cluster) != nil {
		t.Errorf("after the pass: %v, rules %v", err, left(t, cluster))
	}
}

// An object is absent only if this process has looked, and has not created it since.
func TestTemporary_Absent(t *testing.T) {
	for of, want := range map[Temporary]bool{{}: false, {Checked: true}: true, {MayExist: true}: false, {MayExist: true, Checked: true}: false} {
		if got := of.Absent(); got != want {
			t.Errorf("%+v: %t, want %t", of, got, want)
		}
	}
}
