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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A change that only reports progress is written at most once in a second; all others are written at once.
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
		want   time.Duration
	}{
		"the message":                             {message, 300 * ms, 700 * ms},
		"the message after an hour":               {message, time.Hour, 0},
		"the message, and the clock was set back": {message, -time.Hour, time.Second},
		"a complete phase":                        {func(s *v1alpha1.ClusterAPIStatus) { s.Versions[0].Phases = phases(v1alpha1.PhaseComplete) }, 0, time.Second},
		"a blocked phase":                         {func(s *v1alpha1.ClusterAPIStatus) { s.Versions[0].Phases = phases(v1alpha1.PhaseBlocked) }, 0, 0},
		"no phases":                               {func(s *v1alpha1.ClusterAPIStatus) { s.Versions[0].Phases = nil }, 0, 0},
		"the reason":                              {func(s *v1alpha1.ClusterAPIStatus) { s.Conditions[0].Reason = "Collision" }, 0, 0},
		"current version":                         {func(s *v1alpha1.ClusterAPIStatus) { s.CurrentVersion = "4.22.0-1" }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reporter := &Reporter{Now: func() time.Time { return now }, written: now.Add(-test.since)}
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

// read returns the ClusterAPI object.
func read(t *testing.T, reporter *Reporter) *v1alpha1.ClusterAPI {
	t.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	if err := reporter.Live.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// The interval follows from the time of the last write alone.
func TestReporter_PostponesAfterTheLastWrite(t *testing.T) {
	now := start
	writes := 0
	reporter := newReporter(t, func() time.Time { return now }, func() error {
		writes++
		return nil
	})
	const interval = progressInterval
	for i, step := range []struct {
		message     string
		after, want time.Duration
	}{
		{"first", 0, 0}, {"second", interval / 2, interval / 2}, {"third", interval / 2, 0}, {"fourth", interval, 0}, {"fifth", 0, interval},
	} {
		now = now.Add(step.after)
		before := writes
		reported, err := reporter.update(t.Context(), read(t, reporter), nil, func(c *v1alpha1.ClusterAPI) {
			c.Status.Conditions = []metav1.Condition{{Type: "InstallerProgressing", Status: "True", Reason: "RollingOut", Message: step.message, LastTransitionTime: metav1.NewTime(start)}}
		})
		if err != nil {
			t.Fatal(err)
		}
		if wrote := writes > before; reported.Postponed != step.want || wrote != (step.want == 0) || (reported.Cluster.Status.Conditions[0].Message == step.message) != wrote {
			t.Errorf("report %d: written %t, postponed for %s, want %s; the object has %v", i+1, wrote, reported.Postponed, step.want, reported.Cluster.Status.Conditions)
		}
	}
}

// Events about writes of the reconcile are written even if the status is not.
func TestReporter_EventsOfAFailedReport(t *testing.T) {
	reporter := newReporter(t, nil, func() error { return errors.New("the API server is unavailable") })
	events := []Event{{Reason: DriftCorrected, Message: "reverted external changes"}}
	_, err := reporter.update(t.Context(), read(t, reporter), events, func(c *v1alpha1.ClusterAPI) { c.Status.CurrentVersion = "4.22.0-1" })
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

// A write of a controller causes no reconcile of the installer; a write of another client does.
func TestWrittenByOthers(t *testing.T) {
	at := func(seconds int, managers ...string) *v1alpha1.ClusterAPI {
		cluster := &v1alpha1.ClusterAPI{}
		for _, manager := range managers {
			cluster.ManagedFields = append(cluster.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: start.Add(time.Duration(seconds) * time.Second)}})
		}
		return cluster
	}
	version, installer := string(Version.fieldOwner()), string(Installer.fieldOwner())
	for name, test := range map[string]struct {
		before, after *v1alpha1.ClusterAPI
		want          bool
	}{
		"a controller":                        {at(0, version, installer), at(1, version, installer), false},
		"the first write of a controller":     {at(0, version), at(1, version, installer), false},
		"another client":                      {at(0, version), at(0, version, "kubectl-edit"), true},
		"another client again":                {at(0, "kubectl-edit"), at(1, "kubectl-edit"), true},
		"an earlier process, before a change": {at(0, "capi-installer", version), at(0, version), true},
	} {
		if got := WrittenByOthers(test.before, test.after); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
