// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"net"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"

	"github.com/capi-installer/capi-installer/install/reason"
)

// rejectedPhase is the result of a revision whose only phase was rejected.
type rejectedPhase struct {
	phaseResults
	causes []error
}

func (r rejectedPhase) GetPhases() []machinery.PhaseResult { return []machinery.PhaseResult{r.phase()} }

func (r rejectedPhase) phase() machinery.PhaseResult { return phaseOf{causes: r.causes} }

// phaseOf is the result of a rejected phase.
type phaseOf struct {
	machinery.PhaseResult
	causes []error
}

func (p phaseOf) GetName() string { return "core" }

func (p phaseOf) GetObjects() []machinery.ObjectResult { return nil }

func (p phaseOf) IsComplete() bool { return false }

func (p phaseOf) GetValidationError() *validation.PhaseValidationError {
	return &validation.PhaseValidationError{PhaseName: "core", Objects: []validation.ObjectValidationError{{Errors: p.causes}}}
}

// Guarantee: a temporary rejection by the API server is not reported as terminal.
func TestOutcomeOf_Rejections(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	forbidden := apierrors.NewForbidden(resource, "web", errors.New("cannot patch"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil)
	for name, test := range map[string]struct {
		causes []error
		want   reason.Reason
	}{
		"forbidden":                  {[]error{forbidden}, reason.ObjectsForbidden},
		"all forbidden":              {[]error{forbidden, forbidden}, reason.ObjectsForbidden},
		"invalid":                    {[]error{invalid}, reason.ObjectsRefused},
		"forbidden and invalid":      {[]error{forbidden, invalid}, reason.ObjectsRefused},
		"an unknown kind":            {[]error{&meta.NoKindMatchError{}}, reason.ObjectsRefused},
		"unavailable":                {[]error{apierrors.NewServiceUnavailable("down")}, reason.ApplyFailed},
		"an internal error":          {[]error{apierrors.NewInternalError(errors.New("etcd"))}, reason.ApplyFailed},
		"no connection":              {[]error{&net.OpError{Op: "dial", Err: errors.New("connection refused")}}, reason.ApplyFailed},
		"a conflict and forbidden":   {[]error{apierrors.NewConflict(resource, "web", nil), forbidden}, reason.ApplyFailed},
		"a request that timed out":   {[]error{context.DeadlineExceeded}, reason.ApplyFailed},
		"too many requests":          {[]error{apierrors.NewTooManyRequests("later", 1)}, reason.ApplyFailed},
		"invalid and then a timeout": {[]error{invalid, context.DeadlineExceeded}, reason.ApplyFailed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(&loadedRevision{name: "4.22.0-1"}, rejectedPhase{causes: test.causes}, nil).Reason; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
