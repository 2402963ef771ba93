// SPDX-License-Identifier: Apache-2.0

package engine

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// onlyConflicts reports whether an error consists only of Conflict errors: writes to
// objects that another client has changed since they were read.
func onlyConflicts(err error) bool {
	switch wrapped := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
		return false
	case apierrors.APIStatus:
		return apierrors.IsConflict(err)
	case interface{ Unwrap() error }:
		return onlyConflicts(wrapped.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range wrapped.Unwrap() {
			if !onlyConflicts(one) {
				return false
			}
		}
		return len(wrapped.Unwrap()) > 0
	default:
		return false
	}
}
