// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyConflicts(t *testing.T) {
	conflict := fmt.Errorf("applying: %w", apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "a", errors.New("changed")))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "a", errors.New("no"))
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nil":            {nil, false},
		"one conflict":   {conflict, true},
		"two conflicts":  {fmt.Errorf("phase: %w", errors.Join(conflict, conflict)), true},
		"another error":  {forbidden, false},
		"both":           {errors.Join(conflict, forbidden), false},
		"no API answer":  {errors.New("timed out"), false},
		"empty join":     {errors.Join(), false},
		"wrapped others": {fmt.Errorf("%w and %w", conflict, errors.New("x")), false},
	} {
		if got := onlyConflicts(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
