// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A change that only reports progress is written at most once in a second, or seldom if writes take long; all others are
// written at once.
func TestReporter_PostponesOnlyProgress(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	phases := func(states ...v1alpha1.PhaseState) (out []v1alpha1.Phase) {
		for _, state := range states {
			out = append(out, v1alpha1.Phase{Name: string(state), State: state})
		}
		return out
	}
	before := func() *v1alpha1.ClusterAPI {
		return &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{
			Versions:   []v1alpha1.Version{{Name: "4.22.0-1", Phases: phases(v1alpha1.PhaseProgressing)}},
			Conditions: []metav1.Condition{{Type: "InstallerProgressing", Status: "True", Reason: "RollingOut", Message: "installing the first phase"}},
		}}
	}
	message := func(s *v1alpha1.ClusterAPIStatus) { s.Conditions[0].Message = "installing the second phase" }
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		change func(*v1alpha1.ClusterAPIStatus)
		since  time.Duration // the last write
		took   time.Duration // the last write
		want   time.Duration
	}{
		"the message":                             {message, 300 * ms, 0, 700 * ms},
		"the message after an hour":               {message, time.Hour, 0, 0},
		"the message, and the clock was set back": {message, -time.Hour, 0, time.Second},
		"a fast write":                            {message, 300 * ms, 50 * ms, 700 * ms},
		"a slow write":                            {message, 300 * ms, 100 * ms, 1700 * ms},
		"a very slow write":                       {message, 300 * ms, time.Minute, 9700 * ms},
		"the reason after a slow write":           {func(s *v1alpha1.ClusterAPIStatus) { s.Conditions[0].Reason = "Collision" }, 0, time.Minute, 0},
		"a complete phase":                        {func(s *v1alpha1.ClusterAPIStatus) { s.Versions[0].Phases = phases(v1alpha1.PhaseComplete) }, 0, 0, time.Second},
		"a blocked phase":                         {func(s *v1alpha1.ClusterAPIStatus) { s.Versions[0].Phases = phases(v1alpha1.PhaseBlocked) }, 0, 0, 0},
		"no phases":                               {func(s *v1alpha1.ClusterAPIStatus) { s.Versions[0].Phases = nil }, 0, 0, 0},
		"the reason":                              {func(s *v1alpha1.ClusterAPIStatus) { s.Conditions[0].Reason = "Collision" }, 0, 0, 0},
		"current version":                         {func(s *v1alpha1.ClusterAPIStatus) { s.CurrentVersion = "4.22.0-1" }, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reporter := &Reporter{Now: func() time.Time { return now }, written: now.Add(-test.since), took: test.took}
			after := before()
			test.change(&after.Status)
			if got := reporter.postponement(before(), after); got != test.want {
				t.Errorf("postponed for %s, want %s", got, test.want)
			}
		})
	}
}
