// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// summary is "<Progressing> <Degraded>" of a controller.
func summary(controller Controller, conditions []metav1.Condition) string {
	progressing := meta.FindStatusCondition(conditions, string(controller)+Progressing)
	degraded := meta.FindStatusCondition(conditions, string(controller)+Degraded)
	return string(progressing.Status) + " " + string(degraded.Status)
}

func TestEachSeverityHasItsConditions(t *testing.T) {
	for reason, want := range map[Reason]string{
		AsExpected:      "False False",
		Paused:          "False False",
		RollingOut:      "True False",
		ImageUnreadable: "True Unknown",
		Collision:       "False True",
	} {
		if got := summary(Installer, Conditions(Installer, Outcome{Reason: reason}, nil, 1, start)); got != want {
			t.Errorf("%s: Progressing and Degraded are %s, want %s", reason, got, want)
		}
	}
}

func TestARetryableErrorDegradesAfterFiveMinutesAndARestartDoesNotResetThat(t *testing.T) {
	outcome := Outcome{Reason: ImageUnreadable, Err: errors.New("pulling: connection refused")}
	var conditions []metav1.Condition
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "True Unknown"},
		{4*time.Minute + 59*time.Second, "True Unknown"},
		{5 * time.Minute, "True True"},
		{6 * time.Minute, "True True"},
	} {
		// All that is remembered is what stands in the conditions, as after a restart.
		conditions = Conditions(Version, outcome, conditions, 1, start.Add(step.after))
		if got := summary(Version, conditions); got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
	recovered := Conditions(Version, Outcome{Reason: AsExpected}, conditions, 1, start.Add(7*time.Minute))
	if got := summary(Version, recovered); got != "False False" {
		t.Errorf("after recovery: %s", got)
	}
}

func TestTheTransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	first := Conditions(Installer, Outcome{Reason: RollingOut, Message: "one"}, nil, 1, start)
	second := Conditions(Installer, Outcome{Reason: RollingOut, Message: "two"}, first, 2, start.Add(time.Hour))
	if got := second[0].LastTransitionTime.Time; !got.Equal(start) {
		t.Errorf("the message changed and the time moved to %s", got)
	}
	if second[0].Message != "two" || second[0].ObservedGeneration != 2 {
		t.Errorf("message and generation were not renewed: %+v", second[0])
	}
	third := Conditions(Installer, Outcome{Reason: AsExpected}, second, 2, start.Add(2*time.Hour))
	if got := third[0].LastTransitionTime.Time; !got.Equal(start.Add(2 * time.Hour)) {
		t.Errorf("the status changed and the time is %s", got)
	}
}

func TestAvailableStaysWhileAControllerCannotKnow(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	yes, no := true, false
	conditions := Aggregate(cluster, nil, Outcome{Installed: &yes}, start)
	for _, step := range []struct {
		installed *bool
		want      metav1.ConditionStatus
	}{{nil, metav1.ConditionTrue}, {&no, metav1.ConditionFalse}, {nil, metav1.ConditionFalse}, {&yes, metav1.ConditionTrue}} {
		conditions = Aggregate(cluster, conditions, Outcome{Installed: step.installed}, start)
		if got := meta.FindStatusCondition(conditions, Available).Status; got != step.want {
			t.Errorf("Available is %s, want %s", got, step.want)
		}
	}
}

func TestTheSumNamesTheControllerAndBothMessages(t *testing.T) {
	conditions := append(
		Conditions(Version, Outcome{Reason: ComponentMissing, Message: "no provider for AWS"}, nil, 1, start),
		Conditions(Installer, Outcome{Reason: Collision, Message: "Service x is not ours"}, nil, 1, start)...)
	degraded := meta.FindStatusCondition(Aggregate(&v1alpha1.ClusterAPI{}, conditions, Outcome{}, start), Degraded)
	if degraded.Reason != "VersionComponentMissing" || degraded.Message != "no provider for AWS; Service x is not ours" {
		t.Errorf("Degraded is %s: %s", degraded.Reason, degraded.Message)
	}
}

func TestOverridesBlockUpgradesAndAreNamed(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{Spec: v1alpha1.ClusterAPISpec{ImageOverrides: []v1alpha1.ImageOverride{{Name: "b"}, {Name: "a"}}}}
	upgradeable := meta.FindStatusCondition(Aggregate(cluster, nil, Outcome{}, start), Upgradeable)
	if upgradeable.Status != metav1.ConditionFalse || !strings.Contains(upgradeable.Message, "a, b") {
		t.Errorf("Upgradeable is %s: %s", upgradeable.Status, upgradeable.Message)
	}
}

func TestOnlyRetryableErrorsAreRetried(t *testing.T) {
	cause := errors.New("cause")
	if (Outcome{Reason: ApplyFailed, Err: cause}).Retry() == nil {
		t.Error("ApplyFailed is not retried")
	}
	if err := (Outcome{Reason: ComponentMissing, Err: cause}).Retry(); err != nil {
		t.Errorf("ComponentMissing is retried: %v", err)
	}
}

// A cache that lags may show the version before as installed and desired while
// the next one is being written.
func TestTheReleaseIsReportedOnlyByWhoHasSeenItInstalled(t *testing.T) {
	reporter := &Reporter{ReleaseVersion: "4.22.1"}
	settled := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: "4.22.0-1", DesiredVersion: "4.22.0-1"}}
	operator := &configv1.ClusterOperator{}
	reporter.setClusterOperator(operator, settled, Outcome{Reason: RollingOut})
	if len(operator.Status.Versions) != 0 {
		t.Errorf("it reports %v", operator.Status.Versions)
	}
	reporter.setClusterOperator(operator, settled, Outcome{Reason: AsExpected, ReleaseInstalled: true})
	if len(operator.Status.Versions) != 1 || operator.Status.Versions[0].Version != "4.22.1" {
		t.Errorf("it reports %v, want 4.22.1", operator.Status.Versions)
	}
}

func TestWhatNoEventTellsOfIsLookedAtAgain(t *testing.T) {
	for reason, want := range map[Reason]bool{Collision: true, ObjectsRefused: true, ComponentMissing: false, RollingOut: false} {
		if got := (Outcome{Reason: reason}).LookAgain() > 0; got != want {
			t.Errorf("%s: %t, want %t", reason, got, want)
		}
	}
}

// constants are the values of the constants of a type in a file of this package,
// read from its source, so that none can be forgotten.
func constants(t *testing.T, name, kind string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if named, ok := spec.Type.(*ast.Ident); ok && named.Name == kind {
			value, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			values = append(values, value)
		}
		return true
	})
	return values
}

func document(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEveryReasonHasASeverityAndIsDocumented(t *testing.T) {
	docs, reasons := document(t, "conditions.md"), constants(t, "reason.go", "Reason")
	for _, reason := range reasons {
		if _, known := severities[Reason(reason)]; !known {
			t.Errorf("reason %s has no severity", reason)
		}
		if !strings.Contains(docs, "| `"+reason+"` |") {
			t.Errorf("docs/conditions.md does not explain %s", reason)
		}
	}
	if len(reasons) < 10 || len(reasons) != len(severities) {
		t.Errorf("reason.go declares %d reasons, severities has %d", len(reasons), len(severities))
	}
}

func TestEveryEventIsDocumented(t *testing.T) {
	docs, reasons := document(t, "events.md"), constants(t, "event.go", "EventReason")
	for _, reason := range reasons {
		if !strings.Contains(docs, "| `"+reason+"` |") {
			t.Errorf("docs/events.md does not explain %s", reason)
		}
	}
	if len(reasons) < 6 {
		t.Errorf("event.go declares %d reasons", len(reasons))
	}
}
