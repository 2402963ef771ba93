// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// newReporter returns a reporter for a fake cluster with a ClusterAPI object. Each write of a status calls onWrite first.
func newReporter(t *testing.T, now func() time.Time, onWrite func() error) *Reporter {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	existing := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(existing).WithStatusSubresource(existing).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if err := onWrite(); err != nil {
				return err
			}
			return c.SubResource(name).Update(ctx, object, options...)
		},
	}).Build()
	return &Reporter{Client: cluster, Live: cluster, Now: now}
}

// The interval follows from the time and the duration of the last write alone.
func TestReporter_PostponesAfterTheLastWrite(t *testing.T) {
	now := start
	writes := 0
	reporter := newReporter(t, func() time.Time { return now }, func() error {
		writes++
		now = now.Add(100 * time.Millisecond)
		return nil
	})
	const interval = progressShare * 100 * time.Millisecond
	for i, step := range []struct {
		message     string
		after, want time.Duration
	}{
		{"first", 0, 0}, {"second", interval / 2, interval / 2}, {"third", interval / 2, 0}, {"fourth", interval, 0}, {"fifth", 0, interval},
	} {
		now = now.Add(step.after)
		before := writes
		written, postponed, err := reporter.update(t.Context(), nil, nil, func(c *v1alpha1.ClusterAPI) {
			c.Status.Conditions = []metav1.Condition{{Type: "InstallerProgressing", Status: "True", Reason: "RollingOut", Message: step.message, LastTransitionTime: metav1.NewTime(start)}}
		})
		if err != nil {
			t.Fatal(err)
		}
		if wrote := writes > before; postponed != step.want || wrote != (step.want == 0) || (written.Status.Conditions[0].Message == step.message) != wrote {
			t.Errorf("report %d: written %t, postponed for %s, want %s; the object has %v", i+1, wrote, postponed, step.want, written.Status.Conditions)
		}
	}
	cluster := &v1alpha1.ClusterAPI{}
	if err := reporter.Live.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
		t.Fatal(err)
	}
	if !reporter.LastWritten(cluster) {
		t.Error("the object is not the one that the reporter has written")
	}
	cluster.ResourceVersion += "0"
	if reporter.LastWritten(cluster) {
		t.Error("the write of another client counts as one of the reporter")
	}
}

// Events about writes of the reconcile are written even if the status is not.
func TestReporter_EventsOfAFailedReport(t *testing.T) {
	reporter := newReporter(t, nil, func() error { return errors.New("the API server is unavailable") })
	events := []Event{{Reason: DriftCorrected, Message: "reverted external changes"}}
	_, _, err := reporter.update(t.Context(), nil, events, func(c *v1alpha1.ClusterAPI) { c.Status.CurrentVersion = "4.22.0-1" })
	if err == nil {
		t.Error("the failed write is not reported")
	}
	list := &corev1.EventList{}
	if err := reporter.Live.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Reason != string(DriftCorrected) {
		t.Errorf("events are %v, want only DriftCorrected: the version is not installed according to the status", list.Items)
	}
}

// A report starts with the newer one of the object read and the object written, and does not modify it.
func TestReporter_StartsFromTheNewerObject(t *testing.T) {
	object := func(uid types.UID, version string) *v1alpha1.ClusterAPI {
		return &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	for name, test := range map[string]struct {
		written, read *v1alpha1.ClusterAPI
		want          string
	}{
		"nothing is written":                   {nil, object("a", "9"), "9"},
		"the other controller has written":     {object("a", "10"), object("a", "9"), "10"},
		"another client has written":           {object("a", "10"), object("a", "11"), "11"},
		"the written object was deleted since": {object("a", "10"), object("b", "9"), "9"},
	} {
		reporter := &Reporter{cluster: test.written}
		got, err := reporter.latest(t.Context(), test.read)
		if err != nil || got.ResourceVersion != test.want {
			t.Errorf("%s: got version %s, want %s: %v", name, got.ResourceVersion, test.want, err)
		}
		if got == test.read || got == test.written {
			t.Errorf("%s: the object is not a copy", name)
		}
	}
}
