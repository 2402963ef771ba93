// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/reason"
)

// isTransient reports whether one of the causes of a rejection is transient, such as a conflict or
// an unavailable API server.
func isTransient(causes []error) bool { return slices.ContainsFunc(causes, preflight.IsTransient) }

// isForbidden reports whether all causes of a rejection are Forbidden. Such a rejection
// can be temporary: roles are replaced during an upgrade, and quota can become
// available.
func isForbidden(causes []error) bool {
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(err error) bool { return !apierrors.IsForbidden(err) })
}

// removalReason returns the reason of a failed removal: the API server can reject a deletion as it can reject another write. An object or
// a kind that is not found was removed at the same time.
func removalReason(err error) reason.Reason {
	causes := engine.Causes(err)
	isOther := func(cause error) bool {
		return !errors.As(cause, new(apierrors.APIStatus)) || apierrors.IsNotFound(cause)
	}
	switch {
	case slices.ContainsFunc(causes, isOther), isTransient(causes):
		return reason.ApplyFailed
	case isForbidden(causes):
		return reason.ObjectsForbidden
	default:
		return reason.ObjectsRefused
	}
}
