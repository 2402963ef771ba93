// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// summary returns "<Progressing> <Degraded>" of a controller.
func summary(controller Controller, conditions []metav1.Condition) string {
	progressing := meta.FindStatusCondition(conditions, string(controller)+Progressing)
	degraded := meta.FindStatusCondition(conditions, string(controller)+Degraded)
	return string(progressing.Status) + " " + string(degraded.Status)
}

// The API server rejects a status with a longer message, and then the status would not change.
func TestConditions_ShortenMessages(t *testing.T) {
	manifest, err := os.ReadFile("../../manifests/0000_30_cluster-api_01_clusterapis.crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if limit := fmt.Sprintf("maxLength: %d\n", maxMessage); !strings.Contains(string(manifest), limit) {
		t.Errorf("the CRD has no %q", limit)
	}
	rejected := Outcome{Reason: reason.ObjectsRefused, Err: errors.New(strings.Repeat("ConfigMap a/b: the quota is exceeded; ", 1000))}
	both := slices.Concat(Conditions(Version, rejected, nil, 1, start), Conditions(Installer, rejected, nil, 1, start))
	for _, condition := range append(Aggregate(&v1alpha1.ClusterAPI{}, both, rejected, start), both...) {
		if len(condition.Message) > maxMessage || len(condition.Message) > 10000 && !strings.Contains(condition.Message, "…") {
			t.Errorf("%s: the message has %d bytes", condition.Type, len(condition.Message))
		}
	}
}

func TestConditions_RetryableErrorDegradesAfterInertia(t *testing.T) {
	outcome := Outcome{Reason: reason.ImageUnreadable, Err: errors.New("pulling: connection refused")}
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
		// The conditions are the only state, as they are after a restart.
		conditions = Conditions(Version, outcome, conditions, 1, start.Add(step.after))
		if got := summary(Version, conditions); got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
	recovered := Conditions(Version, Outcome{Reason: reason.AsExpected}, conditions, 1, start.Add(7*time.Minute))
	if got := summary(Version, recovered); got != "False False" {
		t.Errorf("after recovery: %s", got)
	}
	if got := summary(Version, Conditions(Version, outcome, recovered, 1, start.Add(8*time.Minute))); got != "True Unknown" {
		t.Errorf("the next error: %s", got)
	}
}

// A clock that was an hour ahead must not delay Degraded by an hour.
func TestConditions_ClockSetBackDuringAnError(t *testing.T) {
	outcome := Outcome{Reason: reason.ImageUnreadable, Err: errors.New("pulling: connection refused")}
	conditions := Conditions(Version, outcome, nil, 1, start.Add(time.Hour))
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "True Unknown"}, {4 * time.Minute, "True Unknown"}, {5 * time.Minute, "True True"}} {
		conditions = Conditions(Version, outcome, conditions, 1, start.Add(step.after))
		if got := summary(Version, conditions); got != step.want {
			t.Errorf("%s after the correction: %s, want %s", step.after, got, step.want)
		}
	}
}

func TestConditions_TransitionTimeChangesWithStatus(t *testing.T) {
	first := Conditions(Installer, Outcome{Reason: reason.RollingOut, Message: "one"}, nil, 1, start)
	second := Conditions(Installer, Outcome{Reason: reason.RollingOut, Message: "two"}, first, 2, start.Add(time.Hour))
	if got := second[0].LastTransitionTime.Time; !got.Equal(start) {
		t.Errorf("a new message moved the transition time to %s", got)
	}
	if second[0].Message != "two" || second[0].ObservedGeneration != 2 {
		t.Errorf("message or generation is outdated: %+v", second[0])
	}
	third := Conditions(Installer, Outcome{Reason: reason.AsExpected}, second, 2, start.Add(2*time.Hour))
	if got := third[0].LastTransitionTime.Time; !got.Equal(start.Add(2 * time.Hour)) {
		t.Errorf("the status changed, but the transition time is %s", got)
	}
}

func TestConditions_AvailableStaysWhileUnknown(t *testing.T) {
	for _, current := range []string{"", "4.22.0-1"} {
		cluster := &v1alpha1.ClusterAPI{}
		cluster.Status.CurrentVersion = current
		yes, no := true, false
		conditions := Aggregate(cluster, nil, Outcome{Installed: &yes}, start)
		for _, step := range []struct {
			installed *bool
			want      metav1.ConditionStatus
		}{{nil, metav1.ConditionTrue}, {&no, metav1.ConditionFalse}, {nil, metav1.ConditionFalse}, {&yes, metav1.ConditionTrue}} {
			conditions = Aggregate(cluster, conditions, Outcome{Installed: step.installed}, start)
			if got := meta.FindStatusCondition(conditions, Available).Status; got != step.want {
				t.Errorf("with current version %q, Available is %s, want %s", current, got, step.want)
			}
		}
	}
}

func TestConditions_SummaryNamesControllerAndMessages(t *testing.T) {
	conditions := append(
		Conditions(Version, Outcome{Reason: reason.Incompatible, Message: "no provider for AWS"}, nil, 1, start),
		Conditions(Installer, Outcome{Reason: reason.Collision, Message: "Service x is not ours"}, nil, 1, start)...)
	degraded := meta.FindStatusCondition(Aggregate(&v1alpha1.ClusterAPI{}, conditions, Outcome{}, start), Degraded)
	if degraded.Reason != "VersionIncompatible" || degraded.Message != reason.Of(reason.Incompatible).WithStep("no provider for AWS")+"; "+reason.Of(reason.Collision).WithStep("Service x is not ours") {
		t.Errorf("Degraded is %s: %s", degraded.Reason, degraded.Message)
	}
}

func TestConditions_RolloutFromTheInstallerAlone(t *testing.T) {
	for _, waiting := range []reason.Reason{reason.RollingOut, reason.RetiringRevisions} {
		conditions := append(
			Conditions(Version, Outcome{Reason: waiting, Message: "waiting for version 4.22.0-1 to be installed"}, nil, 1, start),
			Conditions(Installer, Outcome{Reason: reason.RollingOut, Message: "installing 4.22.0-1: phase cluster-api 1/3"}, nil, 1, start)...)
		progressing := meta.FindStatusCondition(Aggregate(&v1alpha1.ClusterAPI{}, conditions, Outcome{}, start), Progressing)
		if progressing.Reason != "InstallerRollingOut" || progressing.Message != "installing 4.22.0-1: phase cluster-api 1/3" {
			t.Errorf("while the version controller is %s, Progressing is %s: %s", waiting, progressing.Reason, progressing.Message)
		}
	}
}

// A retryable error does not make the operator Degraded while the controller's own condition is Unknown. The operator has seen the generation
// that both controllers have seen.
func TestConditions_AggregateIgnoresUnknown(t *testing.T) {
	conditions := append(
		Conditions(Version, Outcome{Reason: reason.AsExpected}, nil, 7, start),
		Conditions(Installer, Outcome{Reason: reason.ApplyFailed, Err: errors.New("timeout")}, nil, 6, start)...)
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Generation = 7
	for _, condition := range Aggregate(cluster, conditions, Outcome{}, start) {
		if condition.Type == Degraded && condition.Status != metav1.ConditionFalse {
			t.Errorf("Degraded is %s: %s", condition.Status, condition.Message)
		}
		if condition.ObservedGeneration != 6 {
			t.Errorf("%s is of generation %d, want 6", condition.Type, condition.ObservedGeneration)
		}
	}
}

// Errors that alternate do not delay Degraded.
func TestConditions_AlternatingErrorsDegrade(t *testing.T) {
	var conditions []metav1.Condition
	for minute, reason := range []reason.Reason{reason.ApplyFailed, reason.WriteFailed, reason.ApplyFailed, reason.ObjectsForbidden, reason.WriteFailed, reason.ApplyFailed} {
		conditions = Conditions(Installer, Outcome{Reason: reason, Err: errors.New("timeout")}, conditions, 1, start.Add(time.Duration(minute)*time.Minute))
	}
	if got := summary(Installer, conditions); got != "True True" {
		t.Errorf("after five minutes of errors: %s, want True True", got)
	}
}

func TestConditions_UnavailableDuringUninstall(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: "4.22.0-1"}}
	before := Aggregate(cluster, nil, Outcome{Installed: new(true)}, start)
	for _, reason := range []reason.Reason{reason.Uninstalling, reason.Uninstalled} {
		for _, installed := range []*bool{nil, new(true), new(false)} {
			outcome := Outcome{Reason: reason, Message: "removing version 4.22.0-1", Installed: installed}
			available := meta.FindStatusCondition(Aggregate(cluster, before, outcome, start), Available)
			if available.Status != metav1.ConditionFalse || available.Reason != string(reason) || available.Message != outcome.Message {
				t.Errorf("%s: Available is %s (%s): %s", reason, available.Status, available.Reason, available.Message)
			}
		}
	}
}

// The version controller decides on the spec, so only its report observes a generation.
func TestSetStatus_ObservedGeneration(t *testing.T) {
	for controller, want := range map[Controller]int64{Version: 4, Installer: 3} {
		cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{ObservedGeneration: 3}}
		cluster.Generation = 4
		setStatus(cluster, controller, Outcome{Reason: reason.AsExpected}, start, "")
		if got := cluster.Status.ObservedGeneration; got != want {
			t.Errorf("after a report of the %s controller, the observed generation is %d, want %d", controller, got, want)
		}
	}
}

// The conditions of each reason, from either controller: Progressing and Degraded,
// immediately and after five minutes.
func TestConditions_EveryReasonHasShortMessages(t *testing.T) {
	of := map[reason.Severity][2]string{
		reason.Settled: {"False False", "False False"}, reason.InProgress: {"True False", "True False"},
		reason.Retryable: {"True Unknown", "True True"}, reason.Terminal: {"False True", "False True"},
	}
	for _, entry := range reason.All() {
		if entry.Subject == reason.Operator {
			continue
		}
		outcome := Outcome{Reason: entry.Reason, Err: errors.New("reading image quay.io/x: no route to host")}
		if entry.Severity < reason.Retryable {
			outcome = Outcome{Reason: entry.Reason}
		}
		first := Conditions(Installer, outcome, nil, 1, start)
		later := Conditions(Installer, outcome, first, 1, start.Add(Inertia))
		if got := [2]string{summary(Installer, first), summary(Installer, later)}; got != of[entry.Severity] {
			t.Errorf("%s: %q, want %q", entry.Reason, got, of[entry.Severity])
		}
		progressing, degraded := first[0], first[1]
		if words := len(strings.Fields(progressing.Message)); words > 10 {
			t.Errorf("%s: Progressing has %d words: %s", entry.Reason, words, progressing.Message)
		}
		if entry.Severity < reason.Retryable {
			continue
		}
		if want := outcome.Err.Error() + "; " + entry.NextStep(); degraded.Message != want {
			t.Errorf("%s: Degraded is %q, want %q", entry.Reason, degraded.Message, want)
		}
	}
}

// The next step is at the end of a message and nowhere else.
func TestConditions_NextStepOnce(t *testing.T) {
	for _, entry := range reason.All() {
		outcome := Outcome{Reason: entry.Reason, Message: "the cause."}
		for _, condition := range Conditions(Installer, outcome, nil, 1, start) {
			if strings.Count(condition.Message, strings.ReplaceAll(entry.Step, "`", "")) > 1 && entry.Step != "" {
				t.Errorf("%s: %s", entry.Reason, condition.Message)
			}
		}
	}
}

func TestGravest(t *testing.T) {
	for _, test := range []struct {
		of   []reason.Reason
		want reason.Reason
	}{
		{[]reason.Reason{reason.ObjectsForbidden, reason.Collision}, reason.Collision},
		{[]reason.Reason{reason.RollingOut, reason.ApplyFailed}, reason.ApplyFailed},
		{[]reason.Reason{reason.AsExpected, reason.RollingOut}, reason.RollingOut},
		{[]reason.Reason{reason.Incompatible, reason.Collision}, reason.Incompatible},
		{[]reason.Reason{reason.AsExpected}, reason.AsExpected},
	} {
		outcomes := make([]Outcome, len(test.of))
		for i := range test.of {
			outcomes[i].Reason = test.of[i]
		}
		if got := Gravest(outcomes...).Reason; got != test.want {
			t.Errorf("gravest of %v is %s, want %s", test.of, got, test.want)
		}
	}
	undecided := Outcome{Reason: reason.ImageUntrusted, Undecided: true}
	if got := Gravest(undecided, Outcome{Reason: reason.BundleInvalid}); got.Reason != reason.BundleInvalid {
		t.Errorf("an image whose signatures could not be checked is graver than an invalid bundle")
	}
}

func TestConditions_PausedBlocksUpgrades(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{Spec: v1alpha1.ClusterAPISpec{InstallerMode: v1alpha1.Paused}}
	upgradeable := meta.FindStatusCondition(Aggregate(cluster, nil, Outcome{}, start), Upgradeable)
	if upgradeable.Status != metav1.ConditionFalse || upgradeable.Reason != "InstallerPaused" {
		t.Errorf("Upgradeable is %s (%s): %s", upgradeable.Status, upgradeable.Reason, upgradeable.Message)
	}
	cluster.Spec.ImageOverrides = []v1alpha1.ImageOverride{{Name: "aws"}}
	upgradeable = meta.FindStatusCondition(Aggregate(cluster, nil, Outcome{}, start), Upgradeable)
	if !strings.Contains(upgradeable.Message, "aws") || !strings.Contains(upgradeable.Message, "paused") {
		t.Errorf("Upgradeable does not name both reasons: %s", upgradeable.Message)
	}
}

func TestConditions_UnavailableDiffersFromNotInstalled(t *testing.T) {
	for current, want := range map[string]string{"": "NotInstalled", "4.22.0-1": "NotWorking"} {
		cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: current}}
		available := meta.FindStatusCondition(Aggregate(cluster, nil, Outcome{Installed: new(false)}, start), Available)
		if available.Status != metav1.ConditionFalse || available.Reason != want {
			t.Errorf("current %q: Available is %s (%s)", current, available.Status, available.Reason)
		}
	}
}

func TestConditions_OverridesBlockUpgrades(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{Spec: v1alpha1.ClusterAPISpec{ImageOverrides: []v1alpha1.ImageOverride{{Name: "b"}, {Name: "a"}}}}
	upgradeable := meta.FindStatusCondition(Aggregate(cluster, nil, Outcome{}, start), Upgradeable)
	if upgradeable.Status != metav1.ConditionFalse || !strings.Contains(upgradeable.Message, "a, b") {
		t.Errorf("Upgradeable is %s: %s", upgradeable.Status, upgradeable.Message)
	}
}

func TestOutcome_OnlyRetryableErrorsAreRetried(t *testing.T) {
	cause := errors.New("cause")
	if (Outcome{Reason: reason.ApplyFailed, Err: cause}).Retry() == nil {
		t.Error("ApplyFailed is not retried")
	}
	if err := (Outcome{Reason: reason.ComponentMissing, Err: cause}).Retry(); err != nil {
		t.Errorf("ComponentMissing is retried: %v", err)
	}
}

// A release counts as installed only when the version controller says so, independent of the version that is installed.
func TestOperandVersion_OnlyAfterInstallation(t *testing.T) {
	version := v1alpha1.Version{Name: "4.22.0-1", Components: []v1alpha1.Component{{Name: "cluster-api", Version: "v1.10.2"}, {Name: "without-version"}}}
	cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: "4.22.0-1", DesiredVersion: "4.22.0-1", Versions: []v1alpha1.Version{version}}}
	before := configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: "operator", Version: "4.21.0"}}}
	if during := clusterOperatorStatus(before, cluster); !cmp.Equal(before.Versions, during.Versions) {
		t.Errorf("the ClusterOperator reports %v", during.Versions)
	}
	cluster.Status.InstalledRelease = "4.22.1"
	want := []configv1.OperandVersion{{Name: "operator", Version: "4.22.1"}, {Name: "cluster-api", Version: "v1.10.2"}}
	if diff := cmp.Diff(want, clusterOperatorStatus(before, cluster).Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// The related objects are the installer controller's, and stay.
func TestClusterOperatorStatus_Conditions(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Status.Conditions = []metav1.Condition{{Type: Degraded, Status: metav1.ConditionTrue, Reason: "VersionBundleInvalid", Message: "broken", LastTransitionTime: metav1.NewTime(start)}}
	want := configv1.ClusterOperatorStatus{
		RelatedObjects: []configv1.ObjectReference{{Resource: "namespaces", Name: "a"}},
		Conditions:     []configv1.ClusterOperatorStatusCondition{{Type: configv1.OperatorDegraded, Status: configv1.ConditionTrue, Reason: "VersionBundleInvalid", Message: "broken", LastTransitionTime: metav1.NewTime(start)}},
	}
	before := configv1.ClusterOperatorStatus{RelatedObjects: want.RelatedObjects, Conditions: []configv1.ClusterOperatorStatusCondition{{Type: "OfAnotherOperator"}}}
	if diff := cmp.Diff(want, clusterOperatorStatus(before, cluster)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestOutcome_RequeueAfterWithoutEvents(t *testing.T) {
	for reason, want := range map[reason.Reason]bool{reason.Collision: true, reason.ObjectsRefused: true, reason.CheckerAbsent: true, reason.ComponentMissing: false, reason.RollingOut: false} {
		if got := (Outcome{Reason: reason}).RequeueAfter() > 0; got != want {
			t.Errorf("%s: %t, want %t", reason, got, want)
		}
	}
	if got := (Outcome{Reason: reason.RollingOut, Recheck: time.Minute}).RequeueAfter(); got != time.Minute {
		t.Errorf("a rollout with a deadline is reconciled after %s, want one minute", got)
	}
}

// An outcome that was not written is reported again, even if no event follows.
func TestReported_RequeueAfterPostponement(t *testing.T) {
	for _, test := range []struct{ postponed, recheck, want time.Duration }{
		{0, 0, 0},
		{0, time.Minute, time.Minute},
		{time.Second, 0, time.Second},
		{time.Second, time.Minute, time.Second},
		{time.Minute, time.Second, time.Second},
	} {
		outcome := Outcome{Reason: reason.RollingOut, Recheck: test.recheck}
		if result, err := (Reported{Postponed: test.postponed}).Result(outcome); result.RequeueAfter != test.want || err != nil {
			t.Errorf("postponed for %s, recheck after %s: requeued after %s, want %s", test.postponed, test.recheck, result.RequeueAfter, test.want)
		}
	}
}

// controller-runtime warns of a result beside an error.
func TestReported_ResultOfAnErrorIsTheError(t *testing.T) {
	cause := errors.New("cause")
	result, err := (Reported{Postponed: time.Second}).Result(Outcome{Reason: reason.ApplyFailed, Err: cause, Recheck: time.Minute})
	if !errors.Is(err, cause) || !result.IsZero() {
		t.Errorf("got %v and %v, want only the error", result, err)
	}
}

// constants returns the values of the constants of a type in a file of this package,
// parsed from the source, so that the list is complete.
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

func TestConditions_UntrustedImage(t *testing.T) {
	for undecided, want := range map[bool]metav1.ConditionStatus{false: metav1.ConditionTrue, true: metav1.ConditionUnknown} {
		outcome := Outcome{Reason: reason.ImageUntrusted, Err: errors.New("no signature"), Undecided: undecided}
		got := Conditions(Version, outcome, nil, 1, time.Now())
		if degraded := meta.FindStatusCondition(got, "VersionDegraded"); degraded.Status != want || degraded.Reason != "ImageUntrusted" {
			t.Errorf("undecided %t: got %v, want %s", undecided, degraded, want)
		}
		if retries := outcome.Retry() != nil; retries != undecided || (outcome.RequeueAfter() > 0) == undecided {
			t.Errorf("undecided %t: retried %t, requeued after %s", undecided, retries, outcome.RequeueAfter())
		}
	}
}

func TestEvents_AreDocumented(t *testing.T) {
	docs, reasons := document(t, "conditions.md"), constants(t, "events.go", "EventReason")
	for _, reason := range reasons {
		if !strings.Contains(docs, "| `"+reason+"` |") {
			t.Errorf("docs/conditions.md does not explain %s", reason)
		}
	}
	if len(reasons) < 6 {
		t.Errorf("events.go declares %d reasons", len(reasons))
	}
}

// TestConditions_UnsupportedPlatform: neither controller has anything to do, and the operator is available.
func TestConditions_UnsupportedPlatform(t *testing.T) {
	outcome := Outcome{Reason: reason.UnsupportedPlatform, Message: "not supported on platform External", ReleaseInstalled: true}
	conditions := Conditions(Version, outcome, nil, 1, start)
	conditions = append(conditions, Conditions(Installer, Outcome{Reason: reason.UnsupportedPlatform}, nil, 1, start)...)
	for current, want := range map[string]string{"": "True UnsupportedPlatform", "4.22.0-1": "True AsExpected"} {
		cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{CurrentVersion: current}}
		aggregated := Aggregate(cluster, conditions, Outcome{Reason: reason.UnsupportedPlatform, Installed: new(current != "")}, start)
		for kind, want := range map[string]string{Available: want, Progressing: "False AsExpected", Degraded: "False AsExpected"} {
			if got := meta.FindStatusCondition(aggregated, kind); string(got.Status)+" "+got.Reason != want {
				t.Errorf("current version %q: %s is %s (%s), want %s", current, kind, got.Status, got.Reason, want)
			}
		}
	}
}

// TestConditions_AvailableDuringATakeover: the revision of cluster-capi-operator counts until a version is installed, also if
// each version is rejected.
func TestConditions_AvailableDuringATakeover(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	conditions := Aggregate(cluster, nil, Outcome{Reason: reason.BundleInvalid, predecessor: "4.21.0-abc-7"}, start)
	expect := func(step string, want metav1.ConditionStatus, because string) {
		t.Helper()
		if got := meta.FindStatusCondition(conditions, Available); got.Status != want || got.Reason != because {
			t.Errorf("%s: Available is %s (%s), want %s (%s)", step, got.Status, got.Reason, want, because)
		}
	}
	expect("the first version is rejected", metav1.ConditionTrue, "PredecessorInstalled")
	for _, outcome := range []Outcome{{Reason: reason.RollingOut, Installed: new(false)}, {Reason: reason.ObjectsRefused, Installed: new(false)}, {Reason: reason.RollingOut}} {
		conditions = Aggregate(cluster, conditions, outcome, start)
		expect("not installed yet", metav1.ConditionTrue, "PredecessorInstalled")
	}
	cluster.Status.CurrentVersion = "4.22.0-8"
	conditions = Aggregate(cluster, conditions, Outcome{Reason: reason.AsExpected, Installed: new(true)}, start)
	expect("installed", metav1.ConditionTrue, "AsExpected")
	conditions = Aggregate(cluster, conditions, Outcome{Reason: reason.AsExpected, Installed: new(false)}, start)
	expect("unavailable afterwards", metav1.ConditionFalse, "NotWorking")
}

// A problem that is checked again periodically has not stopped the installer.
func TestProgressMessage(t *testing.T) {
	for why, want := range map[reason.Reason]string{
		reason.ObjectsRefused: "retrying; see InstallerDegraded", reason.ApplyFailed: "retrying; see InstallerDegraded", reason.Incompatible: "stopped; see InstallerDegraded",
	} {
		if got := progressMessage(Installer, Outcome{Reason: why, Err: errors.New("x")}); got != want {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
}

func TestGravestMessage_OrderOfConditions(t *testing.T) {
	conditions := []metav1.Condition{
		{Type: Upgradeable, Status: metav1.ConditionFalse, Message: "overridden"}, {Type: Available, Status: metav1.ConditionFalse, Message: "not installed"},
		{Type: Progressing, Status: metav1.ConditionTrue, Message: "phase 1"}, {Type: string(Installer) + Degraded, Status: metav1.ConditionUnknown, Message: "timed out"},
		{Type: Degraded, Status: metav1.ConditionTrue, Message: "collision"},
	}
	for count, want := range []string{"", "overridden", "not installed", "phase 1", "timed out", "collision"} {
		if got := gravestMessage(conditions[:count]); got != want {
			t.Errorf("of %d conditions: got %q, want %q", count, got, want)
		}
	}
	atRest := []metav1.Condition{{Type: Degraded, Status: metav1.ConditionFalse, Message: "a"}, {Type: Available, Status: metav1.ConditionTrue, Message: "Cluster API is installed"}}
	if got := gravestMessage(atRest); got != "" {
		t.Errorf("at rest: %q", got)
	}
}
