// SPDX-License-Identifier: Apache-2.0

package replacing

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A binding is deleted only as it was read, and created again. A dry run deletes nothing, and a patch with a part of the object replaces nothing.
func TestWriter_Patch(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, "a", field.ErrorList{field.Invalid(field.NewPath("roleRef"), nil, "cannot change")})
	apply := client.Apply //nolint:staticcheck // the engine applies by Patch
	for name, test := range map[string]struct {
		patch    client.Patch
		options  []client.PatchOption
		changes  bool // another client writes the object after it was read
		created  bool
		replaced int
		want     func(error) bool
	}{
		"another role":              {apply, nil, false, true, 1, func(err error) bool { return err == nil }},
		"a dry run":                 {apply, []client.PatchOption{client.DryRunAll}, false, false, 0, func(err error) bool { return err == nil }},
		"a part of the object":      {client.RawPatch(types.MergePatchType, []byte("{}")), nil, false, false, 0, apierrors.IsInvalid},
		"changed after it was read": {apply, nil, true, false, 0, apierrors.IsConflict},
	} {
		t.Run(name, func(t *testing.T) {
			before := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}, RoleRef: rbacv1.RoleRef{Name: "old"}}
			created := false
			server := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(before).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					err := next.Get(ctx, key, o, options...)
					if _, metadata := o.(*metav1.PartialObjectMetadata); metadata && test.changes {
						other := &rbacv1.RoleBinding{}
						err = errors.Join(err, next.Get(ctx, key, other))
						other.Labels = map[string]string{"changed": "yes"}
						err = errors.Join(err, next.Update(ctx, other))
					}
					return err
				},
				Patch: func(ctx context.Context, next client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
					if err := next.Get(ctx, client.ObjectKeyFromObject(o), &rbacv1.RoleBinding{}); err == nil {
						return invalid
					}
					created = true
					return nil
				},
			}).Build()
			desired := &unstructured.Unstructured{}
			desired.SetAPIVersion("rbac.authorization.k8s.io/v1")
			desired.SetKind("RoleBinding")
			desired.SetNamespace("n")
			desired.SetName("a")
			w := &Writer{Writer: server, Live: server}
			err := w.Patch(t.Context(), desired, test.patch, test.options...)
			if !test.want(err) || created != test.created || len(w.Events("4.22.0-1")) != test.replaced || len(w.Events("4.22.0-1")) != 0 {
				t.Errorf("error %v, created: %t", err, created)
			}
			if err := server.Get(t.Context(), client.ObjectKeyFromObject(before), before); apierrors.IsNotFound(err) != test.created {
				t.Errorf("reading the former object: %v", err)
			}
		})
	}
}

// Only a rejection of nothing but the immutable field of a binding replaces the object.
func TestRejectsReplaceable(t *testing.T) {
	invalid := func(fields ...string) error {
		var all field.ErrorList
		for _, name := range fields {
			all = append(all, field.Invalid(field.NewPath(name), nil, "cannot change"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Any"}, "any", all)
	}
	for name, test := range map[string]struct {
		kind string
		err  error
		want bool
	}{
		"a changed role":              {"ClusterRoleBinding", invalid("roleRef"), true},
		"of a RoleBinding":            {"RoleBinding", invalid("roleRef"), true},
		"and an invalid subject":      {"RoleBinding", invalid("roleRef", "subjects"), false},
		"another field":               {"RoleBinding", invalid("subjects"), false},
		"a kind that is not replaced": {"ClusterRole", invalid("roleRef"), false},
		"invalid without causes":      {"RoleBinding", invalid(), false},
		"forbidden":                   {"RoleBinding", apierrors.NewForbidden(schema.GroupResource{}, "any", errors.New("roleRef")), false},
		"an error without a status":   {"RoleBinding", errors.New("roleRef"), false},
		"no error":                    {"RoleBinding", nil, false},
		"another kind, no field":      {"ClusterRole", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{}}}}}, false},
		"a conflict about the role":   {"RoleBinding", apierrors.NewApplyConflict([]metav1.StatusCause{{Field: "roleRef"}}, "conflict"), false},
	} {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("rbac.authorization.k8s.io/v1")
		binding.SetKind(test.kind)
		if got := Replaces(binding, test.err); got != test.want {
			t.Errorf("%s: replaced %t, want %t", name, got, test.want)
		}
	}
}
