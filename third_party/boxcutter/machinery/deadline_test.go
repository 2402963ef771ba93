// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"testing"
	"time"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestProgressDeadline_Exceeded(t *testing.T) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	newer := types.NewRevisionWithOwner("two", 2, onePhase(t), owner("two"), owners)
	for name, test := range map[string]struct {
		rev      types.Revision
		deadline time.Time
		want     bool
	}{
		"incomplete before the deadline": {revisionOne(t, ready), future, false},
		"incomplete after the deadline":  {revisionOne(t, ready), past, true},
		"incomplete without a deadline":  {revisionOne(t, ready), time.Time{}, false},
		"complete":                       {revisionOne(t), past, false},
		"progressed":                     {revisionOne(t, ready, types.WithSiblingOwners([]client.Object{owner("two")})), past, false},
		"invalid":                        {types.NewRevision("one", 1, []types.Phase{types.NewPhase("No name!", nil)}), past, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if name == "progressed" {
				reconcileRevision(t, c, newer)
			}
			result := reconcileRevision(t, c, test.rev, types.WithProgressDeadline(test.deadline))
			deadline, ok := result.(machinery.ProgressDeadline)
			if !ok {
				t.Fatalf("%T does not report its deadline", result)
			}
			if got := deadline.ProgressDeadlineExceeded(); got != test.want {
				t.Errorf("got %t, want %t: %s", got, test.want, result)
			}
		})
	}
}

func onePhase(t *testing.T) []types.Phase {
	t.Helper()
	return []types.Phase{types.NewPhase("main", named(t, "a"))}
}

// revisionOne returns revision 1.
func revisionOne(t *testing.T, opts ...types.RevisionReconcileOption) types.Revision {
	t.Helper()
	return types.NewRevisionWithOwner("one", 1, onePhase(t), owner("one"), owners).WithReconcileOptions(opts...)
}
