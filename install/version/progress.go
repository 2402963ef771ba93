// SPDX-License-Identifier: Apache-2.0

package version

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// BeyondProgress ignores the updates of the ClusterAPI object that only report the progress of the
// installer controller: the phases of versions, and conditions that the version controller does not
// write. It also ignores what the version controller has observed: it writes this itself.
var BeyondProgress = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, known := e.ObjectOld.(*v1alpha1.ClusterAPI)
	after, alsoKnown := e.ObjectNew.(*v1alpha1.ClusterAPI)
	if !known || !alsoKnown || before.ResourceVersion == after.ResourceVersion { // a resync
		return true
	}
	return !equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(after))
}}

// withoutProgress returns the object without the fields that BeyondProgress ignores. A
// version that has phases keeps one, because the version controller evicts versions
// without phases.
func withoutProgress(cluster *v1alpha1.ClusterAPI) *v1alpha1.ClusterAPI {
	out := cluster.DeepCopy()
	out.ResourceVersion, out.ManagedFields = "", nil
	out.Status.SignatureVerdicts, out.Status.ObservedInputs, out.Status.ObservedBy, out.Status.InstalledRelease = nil, nil, "", ""
	for i := range out.Status.Versions {
		version := &out.Status.Versions[i]
		version.Phases = make([]v1alpha1.Phase, min(1, len(version.Phases)))
	}
	for i, condition := range out.Status.Conditions {
		if !strings.HasPrefix(condition.Type, string(status.Version)) {
			out.Status.Conditions[i] = metav1.Condition{Type: condition.Type} // a client may have removed it
		}
	}
	return out
}
