// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// after returns the ClusterAPI object after a controller has reported an outcome.
func after(before *v1alpha1.ClusterAPI, controller Controller, outcome Outcome, at time.Time) *v1alpha1.ClusterAPI {
	cluster := before.DeepCopy()
	(&Reporter{Now: func() time.Time { return at }}).setStatus(cluster, controller, outcome)
	return cluster
}

// eventTexts returns the events between two states, as "Type Reason: message".
func eventTexts(before, after *v1alpha1.ClusterAPI) []string {
	var out []string
	for _, event := range Transitions(before, after) {
		out = append(out, event.kind()+" "+string(event.Reason)+": "+event.Message)
	}
	return out
}

const lookAt = "; check the API server and the named objects; the installer retries"

func TestEvents_EachTransitionOnce(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	for _, step := range []struct {
		name    string
		outcome Outcome
		after   time.Duration
		want    []string
	}{
		{"the first report", Outcome{Reason: NoRevision, Installed: new(false)}, 0, nil},
		{"the rollout begins", Outcome{Reason: RollingOut, Message: "phase a"}, 0,
			[]string{"Normal InstallerProgressing: InstallerProgressing is True (RollingOut): phase a"}},
		{"the rollout gets on", Outcome{Reason: RollingOut, Message: "phase b"}, 0, nil},
		{"a retryable error", Outcome{Reason: ApplyFailed, Err: errors.New("timeout")}, 0, []string{
			"Normal InstallerProgressing: InstallerProgressing is True (ApplyFailed): retrying; see InstallerDegraded",
			"Normal InstallerDegraded: InstallerDegraded is Unknown (ApplyFailed): timeout" + lookAt,
		}},
		{"the same reason, another message", Outcome{Reason: ApplyFailed, Err: errors.New("refused")}, time.Minute, nil},
		{"the error lasts", Outcome{Reason: ApplyFailed, Err: errors.New("refused")}, Inertia,
			[]string{"Warning InstallerDegraded: InstallerDegraded is True (ApplyFailed): refused" + lookAt}},
		{"all is well", Outcome{Reason: AsExpected, Installed: new(true)}, Inertia, []string{
			"Normal InstallerProgressing: InstallerProgressing is False (AsExpected): nothing is left to do",
			"Normal InstallerDegraded: InstallerDegraded is False (AsExpected)",
			"Normal Available: Available is True (AsExpected): Cluster API is installed",
		}},
		{"all is still well", Outcome{Reason: AsExpected, Installed: new(true)}, 2 * Inertia, nil},
		{"all components are unavailable", Outcome{Reason: Collision, Message: "x is not ours", Installed: new(false)}, 2 * Inertia, []string{
			"Normal InstallerProgressing: InstallerProgressing is False (Collision): stopped; see InstallerDegraded",
			"Warning InstallerDegraded: InstallerDegraded is True (Collision): x is not ours",
			"Warning Available: Available is False (NotInstalled): no version of Cluster API is completely installed",
		}},
	} {
		next := after(cluster, Installer, step.outcome, start.Add(step.after))
		if diff := cmp.Diff(step.want, eventTexts(cluster, next)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		cluster = next
	}
}

func TestEvents_VersionStoredInstalledRetired(t *testing.T) {
	first := v1alpha1.Version{Name: "4.22.0-1", Components: []v1alpha1.Component{{Name: "cluster-api", Version: "v1.10.2"}, {Name: "aws"}}}
	second := v1alpha1.Version{Name: "4.22.1-2"}
	var states []*v1alpha1.ClusterAPI
	for _, status := range []v1alpha1.ClusterAPIStatus{
		{},
		{DesiredVersion: first.Name, Versions: []v1alpha1.Version{first}},
		{CurrentVersion: first.Name, DesiredVersion: first.Name, Versions: []v1alpha1.Version{first}},
		{CurrentVersion: first.Name, DesiredVersion: second.Name, Versions: []v1alpha1.Version{first, second}},
		{CurrentVersion: second.Name, DesiredVersion: second.Name, Versions: []v1alpha1.Version{first, second}},
		{CurrentVersion: second.Name, DesiredVersion: second.Name, Versions: []v1alpha1.Version{second}},
	} {
		states = append(states, &v1alpha1.ClusterAPI{Status: status})
	}
	var got []string
	for i, state := range states[1:] {
		got = append(got, eventTexts(states[i], state)...)
	}
	want := []string{
		"Normal VersionStored: version 4.22.0-1 was created and will be installed: cluster-api v1.10.2, aws",
		"Normal VersionInstalled: version 4.22.0-1 is completely installed",
		"Normal VersionStored: version 4.22.1-2 was created and will be installed: ",
		"Normal VersionInstalled: version 4.22.1-2 is completely installed",
		"Normal VersionRetired: version 4.22.0-1 was removed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEvents_OverrideBeginsChangesEnds(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	var got []string
	for _, names := range [][]string{{}, {"a"}, {"a"}, {"a", "b"}, {}, {}} {
		next := cluster.DeepCopy()
		next.Spec.ImageOverrides = nil
		for _, name := range names {
			next.Spec.ImageOverrides = append(next.Spec.ImageOverrides, v1alpha1.ImageOverride{Name: name})
		}
		next = after(next, Version, Outcome{Reason: AsExpected}, start)
		got = append(got, eventTexts(cluster, next)...)
		cluster = next
	}
	want := []string{
		"Warning OverrideInEffect: images are overridden: a; remove them from spec.imageOverrides before upgrading",
		"Warning OverrideInEffect: images are overridden: a, b; remove them from spec.imageOverrides before upgrading",
		"Normal Upgradeable: Upgradeable is True (AsExpected)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEvents_LongMessageIsCutBetweenCharacters(t *testing.T) {
	for length := maxNote - 3; length < maxNote+3; length++ {
		text := truncate(strings.Repeat("x", length-1) + "ünder")
		if len(text) > maxNote || !utf8.ValidString(text) {
			t.Errorf("%d bytes, valid %t", len(text), utf8.ValidString(text))
		}
	}
	if truncate("short") != "short" {
		t.Error("a short message was changed")
	}
}
