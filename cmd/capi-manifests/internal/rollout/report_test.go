// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/pagetest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// now is ten minutes after 12:00, the beginning of most archives.
var now = time.Date(2026, 5, 4, 12, 10, 0, 0, time.UTC)

// TestNew_Scenarios reads the objects in each archive of testdata, and compares the text with
// the file want and the lines of a log with the file lines.
func TestNew_Scenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", scenario.AllBut("want", "lines"), func(t *testing.T, archive *scenario.Archive) []scenario.File {
		report := New(snapshotOf(t, archive))
		if err := schematest.Validate(schema.Status, []byte(asJSON(t, report))); err != nil {
			t.Error(err)
		}
		pagetest.Check(t, asPage(t, report))
		lines := strings.Join(report.Changes(Report{}), "\n") + "\n"
		return []scenario.File{{Name: "want", Data: []byte(report.Text(now, Layout{}, false))}, {Name: "lines", Data: []byte(lines)}}
	})
}

// running are the objects of an installer that works outside the cluster.
func running() InstallerObjects {
	return InstallerObjects{Namespace: "openshift-cluster-api-operator", Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("capi-installer-0"), LeaseDurationSeconds: new(int32(137)), RenewTime: new(metav1.NewMicroTime(now)),
	}}}
}

// snapshotOf reads the files clusterapi.yaml, events.yaml, retained.yaml, revisions.yaml and installer.yaml of an archive, if
// they exist. Without installer.yaml the installer runs.
func snapshotOf(t *testing.T, archive *scenario.Archive) (from Snapshot) {
	t.Helper()
	from.Time, from.Installer = now, running()
	into := map[string]any{
		"installer.yaml":  &from.Installer,
		"clusterapi.yaml": &from.ClusterAPI, "events.yaml": &from.Events, "retained.yaml": &from.RetainedCRDs, "revisions.yaml": &from.Revisions,
	}
	for _, file := range archive.Files {
		if target, known := into[file.Name]; known {
			if file.Name == "installer.yaml" {
				from.Installer = InstallerObjects{Namespace: running().Namespace}
			}
			if err := yaml.UnmarshalStrict(file.Data, target); err != nil {
				t.Fatalf("%s: %v", file.Name, err)
			}
		}
	}
	return from
}

func asJSON(t *testing.T, report Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := term.EncodeJSON(&out, report); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func asPage(t *testing.T, report Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.HTML(&out, now); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// everything is the report of testdata/blocked.txtar. It has every part of a report.
func everything(t *testing.T) Report {
	t.Helper()
	return New(snapshotOf(t, scenario.Archives(t, "testdata/blocked.txtar")[0]))
}

// TestReport_MatchesGoldenFiles compares with testdata/golden; UPDATE=1 rewrites the files.
func TestReport_MatchesGoldenFiles(t *testing.T) {
	report := everything(t)
	scenario.Golden(t, "testdata/golden/status.json", asJSON(t, report))
	scenario.Golden(t, "testdata/golden/status.html", asPage(t, report))
}

// TestSchema_RejectsOtherData shows that the schema is strict.
func TestSchema_RejectsOtherData(t *testing.T) {
	for _, change := range []string{`"state": "AtRest"`, `"state": "Resting"`, `"surprise": 1`} {
		document := `{"$schema": "x:y", "summary": "s", "installer": {"state": "Running"}, "versions": [], "conditions": [], "nextSteps": [], "drift": [], "retainedCRDs": [], "unmanagedCRDs": [], "imageOverrides": [], "signatureVerdicts": [], ` + change + `}`
		valid := change == `"state": "AtRest"`
		if err := schematest.Validate(schema.Status, []byte(document)); (err == nil) != valid {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// TestConditions_AreThoseOfTheInstaller compares the names with install/status.
func TestConditions_AreThoseOfTheInstaller(t *testing.T) {
	for got, want := range map[string]string{
		versionProgressing: string(status.Version) + status.Progressing, versionDegraded: string(status.Version) + status.Degraded,
		installerProgressing: string(status.Installer) + status.Progressing, installerDegraded: string(status.Installer) + status.Degraded,
		available: status.Available, upgradeable: status.Upgradeable, driftCorrected: string(status.DriftCorrected),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestState_OfEachReason reports each reason as the installer does, on an installed version.
func TestState_OfEachReason(t *testing.T) {
	for found, want := range map[reason.Reason]State{
		reason.AsExpected: AtRest, reason.RollingOut: RollingOut, reason.CheckerAbsent: RollingOut, reason.TearingDown: RollingOut,
		reason.ApplyFailed: RollingOut, reason.Collision: Blocked, reason.ObjectsRefused: Blocked, reason.ProgressDeadlineExceeded: Blocked,
	} {
		cluster := reportedCluster(found)
		if got, summary := stateOf(Snapshot{ClusterAPI: cluster}, Process{State: Running}); got != want {
			t.Errorf("%s: got %s, want %s: %s", found, got, want, summary)
		}
		cluster.Generation++ // the status is about another generation
		if got, summary := stateOf(Snapshot{ClusterAPI: cluster}, Process{State: Running}); got != RollingOut {
			t.Errorf("%s, stale: got %s: %s", found, got, summary)
		}
	}
}

// TestSteps_CauseComesFirst: the error of a controller explains why the version does not work.
func TestSteps_CauseComesFirst(t *testing.T) {
	cluster := reportedCluster(reason.ObjectsForbidden)
	cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: available, Status: metav1.ConditionFalse, Reason: string(reason.NotWorking)})
	steps := stepsOf(Snapshot{ClusterAPI: cluster}, Process{State: Running})
	if len(steps) != 1 || steps[0].Reason != string(reason.ObjectsForbidden) {
		t.Errorf("got %+v", steps)
	}
}

func installedCluster() *v1alpha1.ClusterAPI {
	cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{
		ObservedGeneration: 1, CurrentVersion: "4.22.3-6", DesiredVersion: "4.22.3-6",
		Versions: []v1alpha1.Version{{Name: "4.22.3-6", Revision: 6, Phases: []v1alpha1.Phase{{Name: "cluster-api", State: v1alpha1.PhaseComplete, Objects: 3, Ready: 3}}}},
	}}
	cluster.Generation = 1
	return cluster
}

// reportedCluster is an installed cluster with the conditions of both controllers.
func reportedCluster(installer reason.Reason) *v1alpha1.ClusterAPI {
	cluster := installedCluster()
	cluster.Status.Conditions = append(status.Conditions(status.Version, status.Outcome{Reason: reason.AsExpected}, nil, 1, now),
		status.Conditions(status.Installer, status.Outcome{Reason: installer}, nil, 1, now)...)
	return cluster
}

func TestChanges_ListOnlyNewFacts(t *testing.T) {
	before := New(Snapshot{ClusterAPI: installedCluster()})
	later := installedCluster()
	later.Status.Versions[0].Phases[0] = v1alpha1.Phase{Name: "cluster-api", State: v1alpha1.PhaseProgressing, Objects: 3, Ready: 2}
	after := New(Snapshot{ClusterAPI: later})
	want := []string{"version 4.22.3-6, phase cluster-api: Progressing, 2/3"}
	if diff := cmp.Diff(want, after.Changes(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if changes := after.Changes(after); changes != nil {
		t.Errorf("changes of the same report: %q", changes)
	}
}

// TestReport_HasNoControlCharacters uses messages with control characters for terminals.
func TestReport_HasNoControlCharacters(t *testing.T) {
	report := everything(t)
	hostile := "\x1b[2J\u202e\n|"
	report.Summary, report.Desired, report.RetainedCRDs[0], report.Drift[0].Message = hostile, hostile, hostile, hostile
	report.Versions[0].Phases[2].WaitingFor[0].Message, report.NextSteps[0].Cause = hostile, hostile
	for _, change := range report.Changes(Report{}) {
		pagetest.CheckPrintable(t, strings.ReplaceAll(change, "\n", "\x00"))
	}
	for _, text := range []string{report.Text(now, Layout{}, false), asJSON(t, report), asPage(t, report)} {
		pagetest.CheckPrintable(t, text)
	}
}

func TestText_ColorChangesNothingElse(t *testing.T) {
	report := everything(t)
	colored := report.Text(now, Layout{}, true)
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(colored, "")
	if plain == colored {
		t.Error("the text has no color")
	}
	if diff := cmp.Diff(report.Text(now, Layout{}, false), plain); diff != "" {
		t.Errorf("(-plain +colored):\n%s", diff)
	}
}

func TestHTML_EscapesText(t *testing.T) {
	report := everything(t)
	report.NextSteps[0].Cause = "<script>alert(1)</script>"
	page := asPage(t, report)
	pagetest.Check(t, page)
	for _, landmark := range []string{"&lt;script&gt;alert(1)", "<header", "<main", "<footer", `<html lang="en">`, `scope="col"`, `scope="row"`, "prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(page, landmark) {
			t.Errorf("%s not found in the page", landmark)
		}
	}
}

func TestEvents_NewestFirst(t *testing.T) {
	var events []corev1.Event
	for minute := range 8 {
		event := corev1.Event{Reason: driftCorrected, Message: fmt.Sprintf("minute %d", minute)}
		event.CreationTimestamp.Time = now.Add(time.Duration(minute-8) * time.Minute)
		events = append(events, event, corev1.Event{Reason: "VersionStored"})
	}
	report := New(Snapshot{ClusterAPI: installedCluster(), Events: events})
	if len(report.Drift) != 8 || report.Drift[0].Message != "minute 7" {
		t.Errorf("got %v", report.Drift)
	}
	text := report.Text(now, Layout{}, false)
	if !strings.Contains(text, "60s ago: minute 7") || !strings.Contains(text, "3 older events; -o json lists all") || strings.Contains(text, "minute 2\n") {
		t.Errorf("got\n%s", text)
	}
}
