// SPDX-License-Identifier: Apache-2.0

package replacing

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
	} {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("rbac.authorization.k8s.io/v1")
		binding.SetKind(test.kind)
		if got := Replaces(binding, test.err); got != test.want {
			t.Errorf("%s: replaced %t, want %t", name, got, test.want)
		}
	}
}
