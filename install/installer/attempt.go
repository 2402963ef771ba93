// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// attempt is the result of reconciling one version once.
type attempt struct {
	plan  plan
	scope scope
	// late is set when the rollout has made no progress until its deadline.
	late bool
	// applied is set if result is known.
	applied bool
	result  engine.Result
	// judged is the result of the preflight.
	judged judgement
	// immutable are the rejected objects that the administrator deletes, so that the version continues, and moved those that the installer
	// deletes, because the version has them in another namespace.
	immutable, moved sets.Set[object.Identity]
	// verdicts are those on unmanaged CRDs.
	verdicts []compatibility.Verdict
	// former are the CRDs that are no longer unmanaged, and refused those that are not
	// adopted, each with the reason.
	former  adoption.Candidates
	refused []string
	// works is set if every object is available.
	works bool
	// contested is the message about objects of the version that another actor keeps changing.
	contested string
	// next is the time until replaced values are written again; 0 without such values.
	next time.Duration
	// replaced is the event about values that admission plugins replace.
	replaced []status.Event
	// taken describes the objects of cluster-capi-operator that were adopted.
	taken []string
	// err is the first error that ended the attempt, or the errors of all objects.
	err error
}

// deletions returns the objects that the attempt has found to be deleted for its version.
func (a attempt) deletions() sets.Set[object.Identity] {
	out := a.immutable.Union(a.moved)
	for _, finding := range a.judged.findings {
		if finding.Deletes != (object.Identity{}) {
			out.Insert(finding.Deletes)
		}
	}
	return out
}
