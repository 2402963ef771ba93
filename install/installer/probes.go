// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/probe"
)

// progressProbe returns the probe that a phase of a revision waits for. Objects that a
// newer revision has adopted are ready.
func progressProbe(rev *loadedRevision) types.Prober {
	return probe.UnlessAdopted(rev.number, probing.And{types.ProbeFunc(notDeleted), probe.Progress()})
}

// notDeleted fails for an object that is being deleted: a finalizer blocks the
// deletion, and the installer recreates the object afterwards.
func notDeleted(obj client.Object) types.ProbeResult {
	if obj.GetDeletionTimestamp() == nil {
		return probing.TrueResult()
	}
	return probing.FalseResult(deletionState(obj))
}
