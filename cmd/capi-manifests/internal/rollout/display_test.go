// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLog_WritesNewFactsWithTheTime has a rollout that is reported every few seconds, and its end.
func TestLog_WritesNewFactsWithTheTime(t *testing.T) {
	var out strings.Builder
	var problems []string
	at := now
	log := NewLog(&out, func() time.Time { return at }, func(err error) { problems = append(problems, err.Error()) })
	for _, step := range []struct {
		after   int // seconds
		crds    []string
		state   State
		summary string
	}{
		{0, []string{"a"}, RollingOut, "1 of 9"}, {2, []string{"a", "b"}, RollingOut, "2 of 9"}, {10, []string{"a", "b"}, RollingOut, "3 of 9"},
		{70, []string{"a", "b"}, RollingOut, "3 of 9"}, {71, nil, AtRest, "done"},
	} {
		at = now.Add(time.Duration(step.after) * time.Second)
		if err := log.Show(Report{State: step.state, Summary: step.summary, RetainedCRDs: step.crds}); err != nil {
			t.Fatal(err)
		}
		log.Problem(errors.New("connection refused"))
	}
	want := `2026-05-04T12:10:00Z retained CRD: a
2026-05-04T12:10:00Z ROLLING OUT: 1 of 9
2026-05-04T12:10:10Z retained CRD: b
2026-05-04T12:10:10Z ROLLING OUT: 3 of 9
2026-05-04T12:11:11Z AT REST: done
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if want := []string{"connection refused; retrying"}; !slices.Equal(problems, want) {
		t.Errorf("got %q, want %q", problems, want)
	}
}
