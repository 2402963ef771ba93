// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster returns a ClusterAPI object with a current and a desired version, and the phases of the latter.
func cluster(current, desired string, phases ...v1alpha1.Phase) *v1alpha1.ClusterAPI {
	c := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: current, DesiredVersion: desired}}
	c.Name = v1alpha1.ClusterAPIName
	c.Status.Versions = []v1alpha1.Version{{Name: desired, Phases: phases}}
	if current != desired && current != "" {
		old := v1alpha1.Version{Name: current, Phases: []v1alpha1.Phase{phase("core", v1alpha1.PhaseRemoving, 0)}}
		c.Status.Versions = append([]v1alpha1.Version{old}, c.Status.Versions...)
	}
	return c
}

func phase(name string, state v1alpha1.PhaseState, since time.Duration) v1alpha1.Phase {
	return v1alpha1.Phase{Name: name, State: state, Since: metav1.NewTime(start.Add(since))}
}

func deleted(c *v1alpha1.ClusterAPI) *v1alpha1.ClusterAPI {
	c.DeletionTimestamp = &metav1.Time{Time: start}
	return c
}

func TestDecide(t *testing.T) {
	const limit = 30 * time.Minute
	complete := phase("cluster-api", v1alpha1.PhaseComplete, 0)
	progressing := phase("aws", v1alpha1.PhaseProgressing, 10*time.Minute)
	installing := cluster("1.0.0-1", "1.1.0-2", complete, progressing, phase("gcp", v1alpha1.PhasePending, 0))
	const waiting = "waiting: version 1.1.0-2 of the Cluster API providers is being installed: phase aws is Progressing"
	type answer struct {
		wait           time.Duration
		message, event string
	}
	for _, test := range []struct {
		name  string
		state State
		now   time.Duration // after start
		want  answer
	}{
		{"nothing is installed", State{Cluster: &v1alpha1.ClusterAPI{}}, 0, answer{}},
		{"no version is stored", State{Cluster: cluster("", "")}, 0, answer{}},
		{"installed", State{Cluster: cluster("1.0.0-1", "1.0.0-1", complete)}, time.Hour, answer{}},
		{"installed, without phases", State{Cluster: cluster("1.0.0-1", "1.0.0-1")}, time.Hour, answer{}},
		{"the rollout has not begun", State{cluster("1.0.0-1", "1.1.0-2"), start}, 0,
			answer{wait: 15 * time.Second, message: "waiting: version 1.1.0-2 of the Cluster API providers is being installed"}},
		{"a rollout in its second phase", State{installing, start}, time.Minute, answer{wait: 15 * time.Second, message: waiting}},
		{"the first version", State{cluster("", "1.1.0-2", progressing), start}, time.Minute, answer{wait: 15 * time.Second, message: waiting}},
		{"all phases are complete, but not reported as installed", State{cluster("1.0.0-1", "1.1.0-2", complete), start}, time.Minute,
			answer{wait: 15 * time.Second, message: "waiting: version 1.1.0-2 of the Cluster API providers is being installed"}},
		{"a blocked rollout", State{cluster("1.0.0-1", "1.1.0-2", phase("aws", v1alpha1.PhaseBlocked, 0)), start}, time.Minute,
			answer{wait: 15 * time.Second, message: "waiting: version 1.1.0-2 of the Cluster API providers is being installed: phase aws is Blocked"}},
		{"shortly before the limit", State{installing, start}, limit - 4*time.Second, answer{wait: 4 * time.Second, message: waiting}},
		{"less than a second before the limit", State{installing, start}, limit - time.Millisecond, answer{wait: time.Second, message: waiting}},
		{"at the limit, counted from the beginning of the rollout and not from that of the phase", State{installing, start}, limit,
			answer{event: "cluster.lifecycle-hook-limit-" + "1.1.0-2-1767225600" + ": " + "Clusters are created and upgraded although version 1.1.0-2 of the Cluster API providers is being installed: " +
				"phase aws is Progressing; the limit of 30m0s of the lifecycle hooks is exceeded"}},
		{"the clock of the API server is ahead", State{installing, start.Add(time.Second)}, 0, answer{wait: 15 * time.Second, message: waiting}},
		{"the clock was set back by a day", State{installing, start.Add(24 * time.Hour)}, 0,
			answer{event: "cluster.lifecycle-hook-limit-" + "1.1.0-2-1767312000" + ": " + "Clusters are created and upgraded although version 1.1.0-2 of the Cluster API providers is being installed: " +
				"phase aws is Progressing; the limit of 30m0s of the lifecycle hooks is exceeded"}},
		{"the revision ConfigMap of the desired version does not exist", State{Cluster: installing}, time.Minute, answer{}},
		{"a provider is unavailable", State{Cluster: cluster("1.0.0-1", "1.0.0-1", complete, progressing)}, 11 * time.Minute,
			answer{wait: 15 * time.Second, message: "waiting: version 1.0.0-1 of the Cluster API providers is unavailable: phase aws is Progressing"}},
		{"a provider is unavailable for long", State{Cluster: cluster("1.0.0-1", "1.0.0-1", complete, progressing)}, 40 * time.Minute,
			answer{event: "cluster.lifecycle-hook-limit-" + "1.0.0-1-1767226200" + ": " + "Clusters are created and upgraded although version 1.0.0-1 of the Cluster API providers is unavailable: " +
				"phase aws is Progressing; the limit of 30m0s of the lifecycle hooks is exceeded"}},
		{"an uninstall", State{deleted(cluster("1.0.0-1", "1.1.0-2", progressing)), start}, time.Minute, answer{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got answer
			handler := &Handler{
				State: of(test.state, nil), Limit: limit, Now: func() time.Time { return start.Add(test.now) },
				Exceeded: func(_ context.Context, state State, b Blocker) {
					event := EventAbout(state.Cluster, b, limit, start)
					got.event = event.Name + ": " + event.Message
				},
			}
			response, _ := handler.decide(t.Context(), metav1.TypeMeta{}).(*blockingResponse)
			got.wait, got.message = time.Duration(response.RetryAfterSeconds)*time.Second, response.Message
			if got != test.want {
				t.Errorf("got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// A retry at the suggested times reaches the end of the limit, also if it is no multiple of the interval.
func TestBlocker_NeverBlocksForever(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Millisecond, time.Second, 100 * time.Second, DefaultLimit} {
		now := start
		for calls := 0; ; calls++ {
			wait := Blocker{Since: start}.wait(now, limit)
			if wait == 0 {
				if now.Sub(start) > limit+time.Second {
					t.Errorf("limit %s: ends after %s", limit, now.Sub(start))
				}
				break
			}
			if calls > 1000 {
				t.Fatalf("limit %s: call %d: %s", limit, calls, wait)
			}
			now = now.Add(time.Duration(seconds(wait)) * time.Second)
		}
	}
}
