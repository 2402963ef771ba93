// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// lines formats phases with the minutes since start.
func lines(phases []v1alpha1.Phase) []string {
	var out []string
	for _, phase := range phases {
		line := fmt.Sprintf("%s %s@%v", phase.Name, phase.State, phase.Since.Sub(start).Minutes())
		for _, waiting := range phase.WaitingFor {
			line += fmt.Sprintf(" %s@%v", waiting.Object, waiting.Since.Sub(start).Minutes())
		}
		out = append(out, line)
	}
	return out
}

func waitingFor(objects ...string) []v1alpha1.Waiting {
	var out []v1alpha1.Waiting
	for _, object := range objects {
		out = append(out, v1alpha1.Waiting{Object: object})
	}
	return out
}

// The API server rejects a status with a longer message, and then the status would not change.
func TestPhaseTimes_ShortenMessages(t *testing.T) {
	waiting := []v1alpha1.Waiting{{Object: "Deployment a/b", Message: strings.Repeat("x", 5000)}}
	phases := stampPhases(nil, []v1alpha1.Phase{{Name: "core", State: v1alpha1.PhaseProgressing, WaitingFor: waiting}}, start)
	if got := len(phases[0].WaitingFor[0].Message); got > 1024 {
		t.Errorf("the message has %d bytes, want at most 1024", got)
	}
}

func TestPhaseTimes_KeepTheTimeOfTheFirstReport(t *testing.T) {
	var phases []v1alpha1.Phase
	for minute, step := range []struct {
		state   v1alpha1.PhaseState
		waiting []string
		want    string
	}{
		{v1alpha1.PhasePending, nil, "core Pending@0"},
		{v1alpha1.PhaseProgressing, []string{"a", "b"}, "core Progressing@1 a@1 b@1"},
		{v1alpha1.PhaseProgressing, []string{"b"}, "core Progressing@1 b@1"},
		{v1alpha1.PhaseProgressing, []string{"a", "b"}, "core Progressing@1 b@1 a@3"},
		{v1alpha1.PhaseProgressing, []string{"1", "2", "3", "4", "5", "a"}, "core Progressing@1 a@3 1@4 2@4 3@4 4@4"},
		{v1alpha1.PhaseComplete, nil, "core Complete@5"},
		{v1alpha1.PhaseComplete, nil, "core Complete@5"},
		{v1alpha1.PhaseProgressing, []string{"a"}, "core Progressing@7 a@7"},
	} {
		found := []v1alpha1.Phase{{Name: "core", State: step.state, WaitingFor: waitingFor(step.waiting...)}}
		phases = stampPhases(phases, found, start.Add(time.Duration(minute)*time.Minute))
		if diff := cmp.Diff([]string{step.want}, lines(phases)); diff != "" {
			t.Errorf("minute %d (-want +got):\n%s", minute, diff)
		}
	}
}

func TestAdvanced(t *testing.T) {
	phases := func(ready ...int32) (out []v1alpha1.Phase) {
		for _, n := range ready {
			out = append(out, v1alpha1.Phase{Objects: 4, Ready: n})
		}
		return out
	}
	for name, test := range map[string]struct {
		before, after []v1alpha1.Phase
		want          bool
	}{
		"another object is ready":      {phases(4, 1), phases(4, 2), true},
		"the same objects are ready":   {phases(4, 1), phases(4, 1), false},
		"an object is no longer ready": {phases(4, 1), phases(3, 1), false},
		"fewer objects are left":       {[]v1alpha1.Phase{{Objects: 3}}, []v1alpha1.Phase{{Objects: 2}}, true},
		"the status has no phases":     {nil, phases(4), false},
		"the phases are unknown":       {phases(1), nil, false},
	} {
		before := []v1alpha1.Version{{Name: "4.22.0-1", Phases: test.before}}
		if got := Advanced(before, map[string][]v1alpha1.Phase{"4.22.0-1": test.after}); got != test.want {
			t.Errorf("%s: advanced is %t, want %t", name, got, test.want)
		}
	}
}
