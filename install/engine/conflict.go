// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// onlyConflicts reports whether an error consists only of Conflict errors: writes to
// objects that another client has changed since they were read.
func onlyConflicts(err error) bool {
	causes := Causes(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool { return !apierrors.IsConflict(cause) })
}

// Causes returns the errors in a tree of joined and wrapped errors that have no cause themselves, and the answers of the API server.
func Causes(err error) (causes []error) {
	switch wrapped := err.(type) { //nolint:errorlint // walks the tree itself
	case apierrors.APIStatus:
		return []error{err}
	case interface{ Unwrap() error }:
		return Causes(wrapped.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range wrapped.Unwrap() {
			causes = append(causes, Causes(one)...)
		}
		return causes
	default:
		return []error{err}
	}
}
