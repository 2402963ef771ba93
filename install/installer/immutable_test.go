// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/object"
)

// The message has a command only for objects without another rejection.
func TestWithDeletions_OnlyImmutableFields(t *testing.T) {
	invalid := func(fields ...string) error {
		var all field.ErrorList
		for _, name := range fields {
			all = append(all, field.Invalid(field.NewPath(name), "x", "field is immutable"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "capi", all)
	}
	const command = "kubectl delete deployment.apps capi -n providers"
	for name, test := range map[string]struct {
		errs []error
		want bool
	}{
		"the selector":                   {[]error{invalid("spec.selector")}, true},
		"the selector and another field": {[]error{invalid("spec.selector", "spec.replicas")}, false},
		"two errors":                     {[]error{invalid("spec.selector"), errors.New("denied")}, false},
		"another field":                  {[]error{invalid("spec.replicas")}, false},
		"a denial":                       {[]error{apierrors.NewForbidden(schema.GroupResource{}, "capi", nil)}, false},
	} {
		rejection := &engine.Rejection{Phase: "core", Objects: []engine.RejectedObject{
			{Identity: object.Identity{GroupKind: object.Deployment, Namespace: "providers", Name: "capi"}, Errors: test.errs},
		}}
		err := withDeletions(rejection)
		if got := strings.Contains(err.Error(), command); got != test.want || !errors.Is(err, rejection) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
