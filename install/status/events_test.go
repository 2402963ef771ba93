// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// after returns the ClusterAPI object after a controller has reported an outcome.
func after(before *v1alpha1.ClusterAPI, controller Controller, outcome Outcome, at time.Time) *v1alpha1.ClusterAPI {
	cluster := before.DeepCopy()
	setStatus(cluster, controller, outcome, at, cluster.Status.DesiredVersion)
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
		{"the first report", Outcome{Reason: reason.NoRevision, Installed: new(false)}, 0, nil},
		{"the rollout begins", Outcome{Reason: reason.RollingOut, Message: "phase a"}, 0,
			[]string{"Normal InstallerProgressing: InstallerProgressing is True (RollingOut): phase a"}},
		{"the rollout gets on", Outcome{Reason: reason.RollingOut, Message: "phase b"}, 0, nil},
		{"a retryable error", Outcome{Reason: reason.ApplyFailed, Err: errors.New("timeout")}, 0, []string{
			"Normal InstallerDegraded: InstallerDegraded is Unknown (ApplyFailed): timeout" + lookAt,
		}},
		{"the same reason, another message", Outcome{Reason: reason.ApplyFailed, Err: errors.New("refused")}, time.Minute, nil},
		{"the error lasts", Outcome{Reason: reason.ApplyFailed, Err: errors.New("refused")}, Inertia,
			[]string{"Warning InstallerDegraded: InstallerDegraded is True (ApplyFailed): refused" + lookAt}},
		{"all is well", Outcome{Reason: reason.AsExpected, Installed: new(true)}, Inertia, []string{
			"Normal InstallerProgressing: InstallerProgressing is False (AsExpected): nothing is left to do",
			"Normal InstallerDegraded: InstallerDegraded is False (AsExpected)",
			"Normal Available: Available is True (AsExpected): Cluster API is installed",
		}},
		{"all is still well", Outcome{Reason: reason.AsExpected, Installed: new(true)}, 2 * Inertia, nil},
		{"all components are unavailable", Outcome{Reason: reason.Collision, Message: "x is not ours", Installed: new(false)}, 2 * Inertia, []string{
			"Warning InstallerDegraded: InstallerDegraded is True (Collision): " + reason.Of(reason.Collision).WithStep("x is not ours"),
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
		next = after(next, Version, Outcome{Reason: reason.AsExpected}, start)
		got = append(got, eventTexts(cluster, next)...)
		cluster = next
	}
	want := []string{
		"Warning OverrideInEffect: images are overridden: a; remove spec.imageOverrides before upgrading",
		"Warning OverrideInEffect: images are overridden: a, b; remove spec.imageOverrides before upgrading",
		"Normal Upgradeable: Upgradeable is True (AsExpected)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A paused installer blocks upgrades: this is worth a warning.
func TestEvents_PauseIsAWarning(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	before := after(cluster, Version, Outcome{Reason: reason.AsExpected}, start)
	next := before.DeepCopy()
	next.Spec.InstallerMode = v1alpha1.Paused
	want := []string{"Warning Upgradeable: Upgradeable is False (InstallerPaused): the installer is paused; set spec.installerMode to Managed before upgrading"}
	if diff := cmp.Diff(want, eventTexts(before, after(next, Version, Outcome{Reason: reason.AsExpected}, start))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// While the API server is unavailable, the newest events are kept, and written in their order.
func TestEventWriter_KeepsTheNewest(t *testing.T) {
	unavailable := true
	var written []string
	writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, event client.Object, _ ...client.CreateOption) error {
			if unavailable {
				return apierrors.NewServiceUnavailable("down")
			}
			written = append(written, event.(*corev1.Event).Message)
			return nil
		},
	}).Build()
	var pending pendingEvents
	var want []string
	for i := range maxPending + 6 {
		pending.write(t.Context(), writer, &v1alpha1.ClusterAPI{}, []Event{{Reason: DriftCorrected, Message: fmt.Sprint(i)}}, start)
		want = append(want, fmt.Sprint(i))
	}
	unavailable = false
	pending.write(t.Context(), writer, &v1alpha1.ClusterAPI{}, nil, start)
	if diff := cmp.Diff(want[6:], written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	pending.write(t.Context(), writer, &v1alpha1.ClusterAPI{}, nil, start)
	if len(written) != maxPending {
		t.Errorf("%d events were written, want %d", len(written), maxPending)
	}
}

// An event that the API server rejects does not keep back later ones.
func TestEventWriter_RetryableErrors(t *testing.T) {
	resource := corev1.Resource("events")
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":              {nil, false},
		"no answer":         {errors.New("connection refused"), true},
		"internal error":    {apierrors.NewInternalError(errors.New("etcd")), true},
		"unavailable":       {apierrors.NewServiceUnavailable("down"), true},
		"too many requests": {apierrors.NewTooManyRequests("later", 1), true},
		"forbidden":         {apierrors.NewForbidden(resource, "x", nil), false},
		"already exists":    {apierrors.NewAlreadyExists(resource, "x"), false},
		"invalid":           {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Event").GroupKind(), "x", nil), false},
	} {
		if got := isRetryable(test.err); got != test.want {
			t.Errorf("%s: retryable %t, want %t", name, got, test.want)
		}
	}
}

func TestNewEvent(t *testing.T) {
	about := &v1alpha1.ClusterAPI{}
	about.UID = "1-2-3"
	keyed, other, again := newEvent(about, Event{Key: "values.4"}, start), newEvent(about, Event{}, start), newEvent(about, Event{}, start)
	if keyed.Name != "cluster.values.4" || other.Name == again.Name {
		t.Errorf("names are %s, %s and %s, want the key in the first one, and two different others", keyed.Name, other.Name, again.Name)
	}
	long := newEvent(about, Event{Message: strings.Repeat("x", 2*maxNote)}, start)
	if len(long.Message) != maxNote || long.InvolvedObject.UID != about.UID || long.InvolvedObject.Kind != "ClusterAPI" {
		t.Errorf("the message has %d bytes, and the event is about %+v", len(long.Message), long.InvolvedObject)
	}
}
