// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"

	"github.com/capi-installer/capi-installer/install/probe"
)

// rejection is the result of a dry run: the API server rejects objects of a phase,
// so the content of no object of the phase was changed.
type rejection struct {
	phase *validation.PhaseValidationError
}

// Error names the phase, and each object with every cause.
func (r rejection) Error() string {
	var found []string
	if r.phase.PhaseError != nil {
		found = append(found, r.phase.PhaseError.Error())
	}
	for _, object := range r.phase.Objects {
		found = append(found, describeRef(object.ObjectRef)+": "+errors.Join(object.Errors...).Error())
	}
	return "phase " + r.phase.PhaseName + " was rejected: " + strings.ReplaceAll(strings.Join(found, "; "), "\n", "; ")
}

// Unwrap returns the validation error of the phase.
func (r rejection) Unwrap() error { return r.phase }

// rejected returns the rejection of the first phase that has one, or nil.
func rejected(result machinery.RevisionResult) error {
	for _, phase := range result.GetPhases() {
		if err := phase.GetValidationError(); err != nil {
			return rejection{err}
		}
	}
	return nil
}

// checkerAbsent reports whether the cluster has no API to check the compatibility
// of unmanaged CRDs.
func checkerAbsent(result machinery.RevisionResult) bool {
	var found rejection
	if !errors.As(rejected(result), &found) {
		return false
	}
	for _, object := range found.phase.Objects {
		if object.ObjectRef.GroupKind() == probe.CompatibilityRequirement && meta.IsNoMatchError(object) {
			return true
		}
	}
	return false
}

// causes returns the causes of a rejection, or nil for any other error.
func causes(err error) []error {
	var found rejection
	if !errors.As(err, &found) {
		return nil
	}
	var all []error
	if found.phase.PhaseError != nil {
		all = append(all, found.phase.PhaseError)
	}
	for _, object := range found.phase.Objects {
		all = append(all, object.Errors...)
	}
	return all
}

// isTransient reports whether a rejection has a transient cause, such as a conflict or
// an unavailable API server.
func isTransient(err error) bool {
	return slices.ContainsFunc(causes(err), func(err error) bool {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(net.Error))
		}
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusConflict || code == http.StatusTooManyRequests
	})
}

// isForbidden reports whether all causes of a rejection are Forbidden. Such a rejection
// can be temporary: roles are replaced during an upgrade, and quota can become
// available.
func isForbidden(err error) bool {
	all := causes(err)
	return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !apierrors.IsForbidden(err) })
}
