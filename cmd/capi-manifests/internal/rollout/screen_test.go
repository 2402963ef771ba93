// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// upgradeOf is an upgrade of some components. The phase in the middle waits for a Deployment.
func upgradeOf(components int) Report {
	at := func(minute int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(minute-10) * time.Minute)) }
	version := v1alpha1.Version{Name: "4.23.0-7", Revision: 7}
	var signatures []v1alpha1.SignatureVerdict
	var waiting v1alpha1.Waiting
	for i := range components {
		name := fmt.Sprintf("cluster-api-provider-number-%02d", i+1)
		state, ready := v1alpha1.PhaseComplete, int32(9)
		if i > components/2 {
			state, ready = v1alpha1.PhasePending, 0
		}
		image := v1alpha1.ImageReference("registry.example.com/" + name)
		version.Components = append(version.Components, v1alpha1.Component{Name: name, Version: "v1.12.3", Image: image})
		signatures = append(signatures, v1alpha1.SignatureVerdict{Image: image, Verdict: v1alpha1.VerdictNotEnforced})
		version.Phases = append(version.Phases, v1alpha1.Phase{Name: name + "-crds", State: state, Since: at(1), Objects: 9, Ready: ready})
		last := v1alpha1.Phase{Name: name, State: state, Since: at(2), Objects: 9, Ready: ready}
		if i == components/2 {
			last.State, last.Ready = v1alpha1.PhaseProgressing, 8
			waiting = v1alpha1.Waiting{Object: "Deployment capi-system/" + name + "-controller-manager", Since: at(3),
				Message: `0 of 1 replicas are available; pod manager-6d5f-x2x4: container manager: CrashLoopBackOff, exit code 1: secret "capa-manager-bootstrap-credentials" not found`}
			last.WaitingFor = []v1alpha1.Waiting{waiting}
		}
		version.Phases = append(version.Phases, last)
	}
	cluster := installedCluster()
	cluster.Generation = 0
	cluster.Status.Versions = append(cluster.Status.Versions, version)
	cluster.Status.DesiredVersion, cluster.Status.SignatureVerdicts = version.Name, signatures
	for _, name := range []string{versionProgressing, installerProgressing} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: "RollingOut", LastTransitionTime: at(1),
			Message: "installing 4.23.0-7, waiting for " + waiting.Object + ": " + waiting.Message})
	}
	for _, name := range []string{versionDegraded, installerDegraded} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: "AsExpected", LastTransitionTime: at(1)})
	}
	return New(Snapshot{
		ClusterAPI: cluster, Installer: running(), Time: now,
		Cluster: &Cluster{Context: "admin@management", Server: "https://api.management.example.com:6443"},
		History: []history.Entry{
			{Version: "4.22.3-6", Started: at(-60), Ended: at(-56), Result: history.Installed}, {Version: "4.23.0-7", Started: at(1), Result: history.Installing},
		},
	})
}

// TestScreen_MatchesGoldenFiles draws screens of 24 lines. The active phase with its object and the next step are on each of them, no line is
// cut, and the counts are complete.
func TestScreen_MatchesGoldenFiles(t *testing.T) {
	for _, components := range []int{4, 63} {
		for _, width := range []int{40, 60, 80, 120} {
			t.Run(fmt.Sprintf("%d components, %d columns", components, width), func(t *testing.T) {
				got := framed(upgradeOf(components), width, 24, "")
				joined := strings.Join(strings.Fields(strings.NewReplacer("│", "", "└──", "", "├──", "").Replace(got)), " ")
				for _, part := range []string{"admin@management", "Next steps", "InstallerProgressing is True", "8/9", "being installed for 9m; the last rollout took 4m", "phases complete", "Deployment capi-system", "CrashLoopBackOff, exit code 1:", "phases pending"} {
					last := width == 40 && (part == "phases pending" || strings.HasPrefix(part, "Crash")) // what does not fit is at the end
					if !strings.Contains(joined, part) && !last {
						t.Errorf("%q is not on the screen", part)
					}
				}
				for line := range strings.Lines(got) {
					if count := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); count > width {
						t.Errorf("a line has %d characters: %q", count, line)
					}
				}
				scenario.Golden(t, fmt.Sprintf("testdata/screen/%02d-components-%03d-columns.txt", components, width), got)
			})
		}
	}
}

// framed returns the lines of a report on a terminal.
func framed(report Report, width, height int, problem string) string {
	var out strings.Builder
	for _, line := range report.frame(now, Layout{Width: width}, height, problem) {
		out.WriteString(line.Paint(false) + "\n")
	}
	return out.String()
}

// TestFrame_CountsTheLinesThatDoNotFit has a problem of several lines, too.
func TestFrame_CountsTheLinesThatDoNotFit(t *testing.T) {
	report := upgradeOf(4)
	all := strings.Count(framed(report, 80, 1000, ""), "\n")
	for height := 1; height <= all+1; height++ {
		got := framed(report, 80, height, "")
		if want := min(height, all); strings.Count(got, "\n") != want {
			t.Errorf("%d lines of a terminal:\n%s", height, got)
		}
		if note := fmt.Sprintf("\n%d more lines: enlarge the terminal\n", all-height+1); height > 1 && strings.HasSuffix(got, note) != (height < all) {
			t.Errorf("%d lines of a terminal:\n%s", height, got)
		}
	}
	got := framed(report, 40, 10, "12:10:00 "+strings.Repeat("refused ", 40))
	if strings.Count(got, "\n") != 10 || strings.Count(got, "refused") != 14 || !strings.Contains(got, "enlarge the terminal\n12:10:00 refused") {
		t.Errorf("got\n%s", got)
	}
}

// TestText_NoFoldShowsEachPhase compares the numbers of phases.
func TestText_NoFoldShowsEachPhase(t *testing.T) {
	phases := func(layout Layout) int {
		text := upgradeOf(63).Text(now, layout, false)
		return strings.Count(text, "── ✔ cluster-api-provider") + strings.Count(text, "── ○ cluster-api-provider")
	}
	if folded, all := phases(Layout{}), phases(Layout{NoFold: true}); folded != 0 || all != 125 {
		t.Errorf("%d folded and %d other phases are shown", folded, all)
	}
}

// TestText_FitsAScreenWithItsSignatures counts the lines without a watch.
func TestText_FitsAScreenWithItsSignatures(t *testing.T) {
	if lines := upgradeOf(63).lines(now, Layout{Width: 80}); len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestText_LinesOfACause has a line for each line of an error.
func TestText_LinesOfACause(t *testing.T) {
	text := Report{NextSteps: []Step{{Action: "Correct it.", Cause: "line 1: a\nline 2: b"}}}.Text(now, Layout{}, false)
	if !strings.HasSuffix(text, "\n  Correct it.\n    line 1: a\n    line 2: b\n") {
		t.Error(text)
	}
}

func TestWrap_BreaksBetweenWords(t *testing.T) {
	for text, want := range map[string]string{"a bb ccc": "a bb|ccc", "abcdefgh": "abcde|fgh", "": "", "ab cdefghi j": "ab|cdefg|hi j"} {
		if got := strings.Join(wrap(text, 5), "|"); got != want {
			t.Errorf("%q is wrapped to %q, want %q", text, got, want)
		}
	}
	if got := wrap("a  b", 0); len(got) != 1 || got[0] != "a  b" {
		t.Errorf("without a limit: %q", got)
	}
}

// TestProgress_CountsNoObjectsBeforeTheFirstPhase: the summary of a version without phases has no "0 of 0".
func TestProgress_CountsNoObjectsBeforeTheFirstPhase(t *testing.T) {
	report := upgradeOf(4)
	cluster := installedCluster()
	cluster.Status.Versions = append(cluster.Status.Versions, v1alpha1.Version{Name: "4.23.0-7", Revision: 7})
	cluster.Status.DesiredVersion = "4.23.0-7"
	if text := progressOf(cluster); !strings.Contains(text, "is being prepared") {
		t.Errorf("got %q", text)
	}
	if report.Summary == "" || strings.Contains(report.Summary, "0 of 0") {
		t.Errorf("got %q", report.Summary)
	}
}

// TestText_OfARemovalCountsWhatIsLeft: pending phases of a version that is being removed still have their objects.
func TestText_OfARemovalCountsWhatIsLeft(t *testing.T) {
	cluster := installedCluster()
	cluster.Status.Versions[0].Phases = []v1alpha1.Phase{
		{Name: "core-crds", State: v1alpha1.PhasePending, Objects: 13}, {Name: "core", State: v1alpha1.PhaseRemoving, Objects: 4},
	}
	text := New(Snapshot{ClusterAPI: cluster}).Text(now, Layout{}, false)
	if !strings.Contains(text, "13 left") || !strings.Contains(text, "waits for its removal") || strings.Contains(text, "0/13") {
		t.Errorf("got\n%s", text)
	}
}

// TestDrift_OfAnEarlierInstallationIsNotShown has an event from before the ClusterAPI object was created.
func TestDrift_OfAnEarlierInstallationIsNotShown(t *testing.T) {
	cluster := installedCluster()
	cluster.CreationTimestamp = metav1.NewTime(now)
	if drift := driftOf(driftAt(now.Add(-time.Minute), now.Add(time.Minute)), cluster.CreationTimestamp); len(drift) != 1 {
		t.Errorf("got %v", drift)
	}
}

// driftAt returns events about drift.
func driftAt(times ...time.Time) (events []corev1.Event) {
	for _, at := range times {
		events = append(events, corev1.Event{Reason: driftCorrected, LastTimestamp: metav1.NewTime(at)})
	}
	return events
}
