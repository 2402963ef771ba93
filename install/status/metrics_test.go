// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// measured returns the gauges of a collector that are not zero, without the prefix of their names.
func measured(t *testing.T, collector prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			if value := metric.GetGauge().GetValue(); value != 0 {
				lines = append(lines, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(family.GetName(), "capi_installer_"), strings.Join(labels, ","), value))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func TestMetrics_OfTheClusterAPI(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	cluster.Spec.InstallerMode = v1alpha1.Paused
	cluster.Spec.ImageOverrides = []v1alpha1.ImageOverride{{Name: "aws", Image: "quay.io/me/aws"}}
	since := metav1.NewTime(time.Unix(1700000000, 0))
	cluster.Status = v1alpha1.ClusterAPIStatus{
		CurrentVersion: "4.22.0-1", DesiredVersion: "4.22.1-2",
		Conditions: []metav1.Condition{{Type: "InstallerDegraded", Status: metav1.ConditionUnknown}},
		Versions: []v1alpha1.Version{
			{Name: "4.22.0-1", Revision: 1, ContentID: "sha256:a", Phases: []v1alpha1.Phase{
				{Name: "preflight", State: v1alpha1.PhaseProgressing, Since: since, Objects: 2, WaitingFor: waitingFor("a")},
			}},
			{Name: "4.22.1-2", Revision: 2, ContentID: "sha256:b", Components: []v1alpha1.Component{{Name: "aws", Type: "infrastructure", Version: "v2"}}, Phases: []v1alpha1.Phase{
				{Name: "preflight", State: v1alpha1.PhaseBlocked, Since: since, Objects: 5, Ready: 3, WaitingFor: waitingFor("a", "b")},
			}},
		},
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"component_info{component=aws,component_version=v2,type=infrastructure,version=4.22.1-2} 1",
		"condition{condition=InstallerDegraded,status=Unknown} 1",
		"image_override_info{image=quay.io/me/aws,name=aws} 1",
		"paused{} 1",
		"phase_objects{phase=preflight,version=4.22.0-1} 2",
		"phase_objects{phase=preflight,version=4.22.1-2} 5",
		"phase_ready_objects{phase=preflight,version=4.22.1-2} 3",
		"phase_state_start_time_seconds{phase=preflight,version=4.22.0-1} 1.7e+09",
		"phase_state_start_time_seconds{phase=preflight,version=4.22.1-2} 1.7e+09",
		"phase_state{phase=preflight,state=Blocked,version=4.22.1-2} 1",
		"phase_state{phase=preflight,state=Progressing,version=4.22.0-1} 1",
		"preflight_incompatible_crds{version=4.22.1-2} 2",
		"revision_info{content_id=sha256:a,current=true,desired=false,revision=1,version=4.22.0-1} 1",
		"revision_info{content_id=sha256:b,current=false,desired=true,revision=2,version=4.22.1-2} 1",
	}
	metrics := &Metrics{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build()}
	if diff := cmp.Diff(want, measured(t, metrics)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// Each phase is observed once, when it becomes complete.
func TestMetrics_PhaseDuration(t *testing.T) {
	phase := func(state v1alpha1.PhaseState, seconds int) v1alpha1.Phase {
		return v1alpha1.Phase{Name: t.Name() + string(state), State: state, Since: metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))}
	}
	status := func(version string, phases ...v1alpha1.Phase) *v1alpha1.ClusterAPI {
		return &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{Versions: []v1alpha1.Version{{Name: version, Phases: phases}}}}
	}
	var before, complete []v1alpha1.Phase
	for seconds, state := range []v1alpha1.PhaseState{v1alpha1.PhaseProgressing, v1alpha1.PhaseBlocked, v1alpha1.PhasePending, v1alpha1.PhaseComplete, v1alpha1.PhaseRemoving} {
		was := phase(state, seconds)
		before = append(before, was)
		was.State, was.Since = v1alpha1.PhaseComplete, metav1.NewTime(start.Add(time.Minute))
		complete = append(complete, was)
	}
	observeDurations(status("4.22.0-1", before...), status("4.22.0-1", before...)) // nothing becomes complete
	observeDurations(status("4.22.0-1", before...), status("4.22.0-1", complete...))
	observeDurations(status("4.22.0-1"), status("4.22.0-2", complete...)) // the reporter has not seen its rollout
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(phaseDuration); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if state, own := strings.CutPrefix(metric.GetLabel()[0].GetValue(), t.Name()); own {
				got[state] = fmt.Sprintf("%d: %v s", metric.GetHistogram().GetSampleCount(), metric.GetHistogram().GetSampleSum())
			}
		}
	}
	want := map[string]string{"Progressing": "1: 60 s", "Blocked": "1: 59 s", "Pending": "1: 0 s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed durations (-want +got):\n%s", diff)
	}
}
