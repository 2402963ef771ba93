// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The tests of programs use the fake client of controller-runtime: without managed fields, and without UIDs.
func TestEngines_WorkWithTheFakeClient(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(testScheme).Build()
	objects := machinery.NewObjectEngine(testScheme, c, c, comparator, fieldOwner, systemPrefix, "tests", nil)
	phases := machinery.NewPhaseEngine(objects, validation.NewClusterPhaseValidator(meta.NewDefaultRESTMapper(nil), c))
	engine := machinery.NewRevisionEngine(phases, validation.NewRevisionValidator(), c)
	revision := func(number int64) types.Revision {
		return types.NewRevision("r", number, []types.Phase{types.NewPhase("main", named(t, "a", "b"))}).
			WithReconcileOptions(ownedBy("one")).WithTeardownOptions(ownedBy("one"))
	}
	for _, number := range []int64{1, 1, 2, 2} {
		result, err := engine.Reconcile(t.Context(), revision(number))
		if err != nil || !result.IsComplete() {
			t.Fatalf("reconcile of revision %d: %v\n%s", number, err, result)
		}
	}
	var complete bool
	for range 3 {
		result, err := engine.Teardown(t.Context(), revision(2))
		if err != nil {
			t.Fatal(err)
		}
		complete = result.IsComplete()
	}
	if !complete {
		t.Error("the objects are still present")
	}
}
