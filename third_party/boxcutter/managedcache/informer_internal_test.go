// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRejected: the cache retries only errors that can end without a change of the cluster.
func TestRejected_StatusCodes(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"forbidden":       {apierrors.NewForbidden(things, "", errors.New("no")), true},
		"wrapped":         {fmt.Errorf("listing: %w", apierrors.NewForbidden(things, "", errors.New("no"))), true},
		"not served":      {apierrors.NewGenericServerResponse(404, "list", things, "", "", 0, true), true},
		"unauthorized":    {apierrors.NewGenericServerResponse(401, "list", things, "", "", 0, true), true},
		"bad request":     {apierrors.NewGenericServerResponse(400, "list", things, "", "", 0, true), true},
		"timeout":         {apierrors.NewGenericServerResponse(408, "list", things, "", "", 0, true), false},
		"conflict":        {apierrors.NewGenericServerResponse(409, "list", things, "", "", 0, true), false},
		"expired":         {apierrors.NewGenericServerResponse(410, "list", things, "", "", 0, true), false},
		"too many":        {apierrors.NewTooManyRequests("later", 1), false},
		"server error":    {apierrors.NewInternalError(errors.New("broken")), false},
		"unavailable":     {apierrors.NewServiceUnavailable("later"), false},
		"no answer":       {errors.New("connection refused"), false},
		"without details": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 403}}, false},
	} {
		if got := rejected(test.err); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
