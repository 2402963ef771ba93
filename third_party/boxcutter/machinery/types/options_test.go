// SPDX-License-Identifier: Apache-2.0

package types_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

func TestPhaseOptions_LastOneWins(t *testing.T) {
	obj := &corev1.ConfigMap{}
	aggregate := types.WithAggregatePhaseReconcileErrors()
	probe := types.WithProbe("Ready", nil)
	var revision types.RevisionReconcileOptions
	types.WithPhaseReconcileOptions("one", aggregate).ApplyToRevisionReconcileOptions(&revision)
	types.WithPhaseReconcileOptions("one", probe).ApplyToRevisionReconcileOptions(&revision)
	if got := revision.ForPhase("one"); len(got) != 1 || got[0] != types.PhaseReconcileOption(probe) {
		t.Errorf("options of the phase: %v", got)
	}
	var phase types.PhaseReconcileOptions
	types.WithObjectReconcileOptions(obj, types.WithPaused{}).ApplyToPhaseReconcileOptions(&phase)
	types.WithObjectReconcileOptions(obj, probe).ApplyToPhaseReconcileOptions(&phase)
	if got := phase.ForObject(obj); len(got) != 1 || got[0] != probe {
		t.Errorf("options of the object: %v", got)
	}
}

func TestToObjectRef_Nil(t *testing.T) {
	if got := types.ToObjectRef(nil); got != (types.ObjectRef{}) {
		t.Errorf("got %v", got)
	}
}

func TestWithOwner_PanicsWithoutUID(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	types.WithOwner(&corev1.ConfigMap{}, nil)
}
