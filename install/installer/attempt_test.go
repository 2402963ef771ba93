// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
)

func TestDeadlineOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	condition := func(is metav1.ConditionStatus, reason reason.Reason, minutes int) []metav1.Condition {
		return []metav1.Condition{{Type: "InstallerProgressing", Status: is, Reason: string(reason), LastTransitionTime: metav1.NewTime(ago(minutes))}}
	}
	phases := func(minutes ...int) []v1alpha1.Phase {
		var out []v1alpha1.Phase
		for _, since := range minutes {
			out = append(out, v1alpha1.Phase{Since: metav1.NewTime(ago(since))})
		}
		return out
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		phases     []v1alpha1.Phase
		since      time.Time
	}{
		"first reconcile":                    {nil, nil, now},
		"first reconcile of a new version":   {condition(metav1.ConditionFalse, reason.ProgressDeadlineExceeded, 90), nil, now},
		"last, a phase changed":              {condition(metav1.ConditionTrue, reason.RollingOut, 60), phases(60, 20, 50), ago(20)},
		"last, the installer was resumed":    {condition(metav1.ConditionTrue, reason.RollingOut, 5), phases(60, 50), ago(5)},
		"the installer is resumed now":       {condition(metav1.ConditionFalse, reason.Paused, 40), phases(60, 50), now},
		"a complete version became unready":  {condition(metav1.ConditionFalse, reason.AsExpected, 600), phases(700, 700), now},
		"the deadline was exceeded before":   {condition(metav1.ConditionFalse, reason.ProgressDeadlineExceeded, 1), phases(60, 50), ago(50)},
		"a phase changed after the deadline": {condition(metav1.ConditionFalse, reason.ProgressDeadlineExceeded, 9), phases(60, 2), ago(2)},
		"a retryable error during a rollout": {condition(metav1.ConditionTrue, reason.ApplyFailed, 3), phases(60), ago(3)},
	} {
		want := test.since.Add(time.Hour)
		if got := deadlineOf(v1alpha1.Version{Phases: test.phases}, test.conditions, now, time.Hour); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestIsLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for deadline, want := range map[time.Time]bool{{}: false, now.Add(time.Second): false, now: true, now.Add(-time.Second): true} {
		if got := isLate(deadline, now); got != want {
			t.Errorf("deadline %s after now: %t, want %t", deadline.Sub(now), got, want)
		}
	}
}

func TestDefaultProgressTimeout_IsThatOfTheAlert(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../manifests/0000_90_cluster-api_02_prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, alert, _ := strings.Cut(string(rules), "alert: CAPIInstallerRolloutStuck\n")
	alert, _, _ = strings.Cut(alert, "alert:")
	if want := fmt.Sprintf("> %d)", defaultProgressTimeout/time.Second); !strings.Contains(alert, want) {
		t.Errorf("the alert does not contain %q: %s", want, alert)
	}
}

func TestScopeOf(t *testing.T) {
	for name, test := range map[string]struct {
		version, current, desired string
		want                      scope
	}{
		"a version that is rolled out":         {"4.22.0-2", "4.22.0-1", "4.22.0-2", rollout},
		"the first version":                    {"4.22.0-1", "", "4.22.0-1", rollout},
		"the current version during a rollout": {"4.22.0-1", "4.22.0-1", "4.22.0-2", maintenance},
		"the settled version":                  {"4.22.0-1", "4.22.0-1", "4.22.0-1", maintenance},
		"a superseded version":                 {"4.22.0-2", "4.22.0-1", "4.22.0-3", controlledOnly},
	} {
		t.Run(name, func(t *testing.T) {
			got := scopeOf(test.version, v1alpha1.ClusterAPIStatus{CurrentVersion: test.current, DesiredVersion: test.desired})
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestLogWrites_OnlyWrittenObjects(t *testing.T) {
	for name, test := range map[string]struct {
		action engine.Action
		paused bool
		lines  int
	}{
		"created":               {engine.Created, false, 1},
		"recovered":             {engine.Recovered, false, 1},
		"idle":                  {engine.Idle, false, 0},
		"in collision":          {engine.Collision, false, 0},
		"only compared, absent": {engine.Created, true, 0},
	} {
		lines := 0
		logger := funcr.New(func(string, string) { lines++ }, funcr.Options{})
		logWrites(log.IntoContext(t.Context(), logger), reconciled(test.action, test.paused).Phases[0])
		if lines != test.lines {
			t.Errorf("%s: %d lines, want %d", name, lines, test.lines)
		}
	}
}
