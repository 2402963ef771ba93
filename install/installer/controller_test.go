// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
)

func TestAnyAvailable(t *testing.T) {
	yes, no, unknown := new(true), new(false), (*bool)(nil)
	for name, test := range map[string]struct {
		results []versionResult
		want    *bool
	}{
		"a complete version":                      {[]versionResult{{complete: true}}, yes},
		"an older version is available":           {[]versionResult{{available: no}, {available: yes}}, yes},
		"an older version, the newest is unknown": {[]versionResult{{available: unknown}, {available: yes}}, yes},
		"none is available":                       {[]versionResult{{available: no}, {available: no}}, no},
		"the newest is unknown":                   {[]versionResult{{available: unknown}, {available: no}}, unknown},
		"the older one is unknown":                {[]versionResult{{available: no}, {available: unknown}}, unknown},
	} {
		if diff := cmp.Diff(test.want, anyAvailable(test.results)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The versions are reconciled from the newest one to the first that is complete, or to the current one.
func TestInstall_NewestFirst(t *testing.T) {
	var versions []v1alpha1.Version
	s := state{}
	for _, name := range []string{"4.22.0-2", "4.22.0-3", "4.22.0-10"} { // without objects, they are complete
		version, configMap := storedVersion(t, name)
		versions = append(versions, version)
		s = stateOf(versions, append(s.ConfigMaps, configMap)...)
	}
	for name, test := range map[string]struct {
		unreadable  []int // indexes of ConfigMaps
		wantCurrent string
		wantReason  reason.Reason
		installed   *bool
	}{
		"the newest version is complete":        {nil, "4.22.0-10", reason.AsExpected, new(true)},
		"the newest version is unreadable":      {[]int{2}, "", reason.RevisionUnreadable, new(true)},
		"the current version is unreadable too": {[]int{1, 2}, "", reason.RevisionUnreadable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			empty := fake.NewClientBuilder().WithScheme(clusterScheme(t)).Build()
			changed := stateOf(versions, slices.Clone(s.ConfigMaps)...)
			changed.Cluster.Status.CurrentVersion = "4.22.0-3"
			for _, i := range test.unreadable {
				changed.ConfigMaps[i].BinaryData = nil
			}
			outcome, current := reconcilerOf(t, empty, empty, watches{}).install(t.Context(), changed)
			if current != test.wantCurrent || outcome.Reason != test.wantReason || !cmp.Equal(outcome.Installed, test.installed) {
				t.Errorf("current %q, reason %s, installed %v: %v", current, outcome.Reason, outcome.Installed, outcome.Err)
			}
			if _, reached := outcome.Phases["4.22.0-3"]; reached != (len(test.unreadable) == 1) || outcome.Phases["4.22.0-2"] != nil {
				t.Errorf("phases of %v", outcome.Phases)
			}
		})
	}
}

// The certificates are checked again without an event, also after an error. With an error, nothing is known about the
// availability of the version.
func TestInstallVersion_RechecksCertificates(t *testing.T) {
	for _, object := range []*unstructured.Unstructured{webhookService(), settings("a", "red")} {
		version, configMap := storedVersion(t, "4.22.0-1", object)
		empty := fake.NewClientBuilder().WithScheme(clusterScheme(t)).Build()
		reconciler := reconcilerOf(t, empty, empty, watches{failed: errors.New("down")})
		got := reconciler.installVersion(t.Context(), stateOf([]v1alpha1.Version{version}, configMap), version)
		want := time.Duration(0)
		if object.GetKind() == "Service" {
			want = servingcert.RecheckInterval
		}
		if got.outcome.Recheck != want || got.outcome.Reason != reason.ApplyFailed {
			t.Errorf("%s: reason %s, recheck after %s, want %s", object.GetKind(), got.outcome.Reason, got.outcome.Recheck, want)
		}
		if got.complete || got.available != nil || got.phases != nil {
			t.Errorf("%s: after an error, complete %t, available %v, phases %v", object.GetKind(), got.complete, got.available, got.phases)
		}
	}
}

// A version that waits for pods is read again long before the deadline of the rollout: no event of a pod causes a reconcile.
func TestUntilDeadline_WaitingContinues(t *testing.T) {
	waiting := attempt{err: waitingError("")}.outcome()
	for left, want := range map[time.Duration]time.Duration{time.Hour: waitingRecheck, time.Second: time.Second, -time.Second: waitingRecheck} {
		if got := untilDeadline(waiting, left); got.Recheck != want || got.Reason != reason.RollingOut {
			t.Errorf("%s before the deadline: %s, recheck after %s, want %s", left, got.Reason, got.Recheck, want)
		}
	}
}

// A CRD that cannot be released is an error of the newest version, unless that version has another one.
func TestInstall_UnmanagedCRDNotReleased(t *testing.T) {
	version, configMap := storedVersion(t, "4.22.0-1")
	down := apierrors.NewServiceUnavailable("down")
	for name, test := range map[string]struct {
		err        error
		unreadable bool
		want       reason.Reason
	}{
		"released":                  {nil, false, reason.UnknownEntries},
		"a failed read":             {down, false, reason.ApplyFailed},
		"an unreadable version too": {down, true, reason.RevisionUnreadable},
	} {
		s := stateOf([]v1alpha1.Version{version}, configMap)
		s.Cluster.Spec.UnmanagedCRDs = []string{machinesCRD}
		live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).Build()
		cache := interceptor.NewClient(live, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if test.err != nil {
				return test.err
			}
			return c.Get(ctx, key, o, options...)
		}})
		if test.unreadable {
			s.ConfigMaps[0].BinaryData = nil
		}
		outcome, _ := reconcilerOf(t, cache, live, watches{}).install(t.Context(), s)
		if outcome.Reason != test.want || errors.Is(outcome.Err, down) != (test.want == reason.ApplyFailed) {
			t.Errorf("%s: reason %s, want %s: %v", name, outcome.Reason, test.want, outcome.Err)
		}
		if again := outcome.Recheck == behindInterval; again != test.unreadable {
			t.Errorf("%s: the next attempt is after %s", name, outcome.Recheck)
		}
	}
}

// The removal of an older version is reported once the desired version is installed. An error of the desired version is
// more important.
func TestReconcile_InstallBeforeTeardown(t *testing.T) {
	failed := errors.New("unreadable")
	removing := status.Outcome{
		Reason: reason.TearingDown, Message: "removing", Phases: map[string][]v1alpha1.Phase{"4.22.0-1": {}}, Events: []status.Event{{Reason: status.CRDsKept}},
	}
	broken := status.Outcome{Reason: reason.ApplyFailed, Err: failed}
	for name, test := range map[string]struct {
		installed reason.Reason
		removed   status.Outcome
		want      reason.Reason
		behind    error
	}{
		"the old version is removed":            {reason.AsExpected, removing, reason.TearingDown, nil},
		"the old version is unreadable":         {reason.AsExpected, broken, reason.ApplyFailed, nil},
		"nothing is removed":                    {reason.AsExpected, status.Outcome{Reason: reason.AsExpected}, reason.AsExpected, nil},
		"the desired version is unreadable":     {reason.RevisionUnreadable, removing, reason.RevisionUnreadable, nil},
		"both versions are unreadable":          {reason.RevisionUnreadable, broken, reason.RevisionUnreadable, failed},
		"a collision and an unreadable version": {reason.Collision, broken, reason.Collision, failed},
	} {
		installed := status.Outcome{Reason: test.installed, Message: "installed", Phases: map[string][]v1alpha1.Phase{"4.22.0-2": {}}, Events: []status.Event{{Reason: status.DriftCorrected}}}
		got, behind := withRemoval(installed, test.removed)
		if got.Reason != test.want || !errors.Is(behind, test.behind) || (behind == nil) != (test.behind == nil) {
			t.Errorf("%s: got %s and %v, want %s and %v", name, got.Reason, behind, test.want, test.behind)
		}
		if kept := test.want == test.installed; (got.Message == "installed") != kept {
			t.Errorf("%s: message %q", name, got.Message)
		}
		if len(got.Phases) != 1+len(test.removed.Phases) || len(got.Events) != 1+len(test.removed.Events) {
			t.Errorf("%s: phases %v, events %v", name, got.Phases, got.Events)
		}
	}
}

// The condition names the retained CRDs in order, except those that are unmanaged or installed: the cache can show them as they were before.
func TestNameRetained(t *testing.T) {
	builder := fake.NewClientBuilder().WithScheme(clusterScheme(t))
	for _, name := range []string{"c.x.io", "b.x.io", "unmanaged.x.io", machinesCRD} {
		crd := machines()
		crd.SetName(name)
		crd.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
		builder.WithObjects(crd)
	}
	current, configMap := storedVersion(t, "4.22.0-1", machines())
	s := stateOf([]v1alpha1.Version{current}, configMap)
	reconciler := &Reconciler{Client: builder.Build()}
	for _, test := range []struct {
		message   string
		unmanaged []string
		want      string
	}{
		{"", []string{"unmanaged.x.io"}, "nothing is left to do; CRDs retained because of their instances: b.x.io, c.x.io"},
		{"done", []string{"unmanaged.x.io"}, "done; CRDs retained because of their instances: b.x.io, c.x.io"},
		{"", []string{"b.x.io", "c.x.io", "unmanaged.x.io"}, ""},
	} {
		outcome := status.Outcome{Message: test.message}
		s.Cluster.Spec.UnmanagedCRDs = test.unmanaged
		if err := reconciler.nameRetained(t.Context(), s, &outcome); err != nil || outcome.Message != test.want {
			t.Errorf("message is %q, want %q: %v", outcome.Message, test.want, err)
		}
	}
}

// A reconcile installs the desired version and removes the deleted one. A CRD that stays is in the event and in the condition. Only the plan
// of the installed version is kept.
func TestReconcile_RetainedCRD(t *testing.T) {
	first, firstMap := storedVersion(t, "4.22.0-1", machines())
	second, secondMap := storedVersion(t, "4.22.0-2")
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	s.Cluster.Status.CurrentVersion, s.Cluster.Finalizers = second.Name, []string{v1alpha1.UninstallFinalizer}
	old := &s.ConfigMaps[0]
	old.DeletionTimestamp, old.Finalizers = new(metav1.Now()), []string{v1alpha1.TeardownFinalizer, "x.io/theirs"}
	crd := controlledBy(t, "4.22.0-1", machines()) // not Established: it may have instances
	cluster := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithStatusSubresource(s.Cluster, &configv1.ClusterOperator{}).
		WithObjects(s.Cluster, old, &s.ConfigMaps[1], crd).Build()
	reconciler := reconcilerOf(t, cluster, cluster, watches{})
	if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if kept := slices.Collect(maps.Keys(reconciler.Applier.plans.known)); !slices.Equal(kept, []string{second.Name}) {
		t.Errorf("the plans of %v are kept, want only the installed version", kept)
	}
	events := &corev1.EventList{}
	if err := cluster.List(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.Reason == string(status.CRDsKept) && strings.Contains(e.Message, machinesCRD)
	}) {
		t.Errorf("events are %v, want one with %s", events.Items, machinesCRD)
	}
	got := &v1alpha1.ClusterAPI{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, got); err != nil {
		t.Fatal(err)
	}
	condition := meta.FindStatusCondition(got.Status.Conditions, string(status.Installer)+status.Progressing)
	if condition == nil || condition.Reason != string(reason.AsExpected) || !strings.Contains(condition.Message, machinesCRD) {
		t.Errorf("condition is %v, want %s with %s", condition, reason.AsExpected, machinesCRD)
	}
}
