// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"pkg.package-operator.run/boxcutter/machinery/types"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Available reports whether every object of a revision is available, even if it is being
// updated. A phase that was rejected or not reached has no results: its objects in the cache
// decide, not the empty list.
func (e *Engine) Available(ctx context.Context, rev Revision, result Result) bool {
	judged := map[string]int{}
	for _, phase := range result.Phases {
		judged[phase.Name] = len(phase.Objects)
	}
	for _, phase := range rev.Phases {
		if judged[phase.Name] < len(phase.Objects) && !e.availableInCache(ctx, phase) {
			return false
		}
	}
	return result.Available()
}

// availableInCache reports whether the objects of a phase exist and are available. An object that cannot be read counts as
// available: nothing is known of it.
func (e *Engine) availableInCache(ctx context.Context, phase revision.Phase) bool {
	for _, obj := range phase.Objects {
		if object.GroupKind(obj) == probe.CompatibilityRequirement { // a check; no provider needs it to run
			continue
		}
		switch actual, err := ReferenceTo(obj).Read(ctx, e.Reader); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return false
		case err == nil && probe.Available().Probe(actual).Status != types.ProbeStatusTrue:
			return false
		}
	}
	return true
}
