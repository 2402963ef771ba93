// SPDX-License-Identifier: Apache-2.0

package types_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// The conformance suite checks the other options.
func TestOptions_AreComparable(t *testing.T) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "owner"}}
	for _, option := range []any{types.WithAggregatePhaseReconcileErrors(), types.WithOwner(owner, nil)} {
		if same := option; same != option { // panics if it is not comparable
			t.Errorf("%T differs from itself", option)
		}
	}
}
