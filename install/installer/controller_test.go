// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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

// informers is a cache whose watches start, or fail.
type informers struct {
	managedcache.TrackingCache
	failed error
}

func (i informers) Watch(context.Context, client.Object, sets.Set[schema.GroupVersionKind]) error {
	return i.failed
}
func (i informers) Free(context.Context, client.Object) error { return nil }

// owners are those of the installer.
var owners = Owners{ownerhandling.NewAnnotation(scheme.Scheme, v1alpha1.OwnersAnnotation)}

// completed makes an engine know a version as complete. Its only phase has an object that is available, or not.
func completed(t *testing.T, e *Engine, s state, version v1alpha1.Version, isAvailable bool) {
	t.Helper()
	rev, err := s.load(version)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.plan(t.Context(), rev), e.trust(t.Context(), rev)); err != nil {
		t.Fatal(err)
	}
	result := settledPhase("core", machinery.ActionIdle, nil, "a")
	if isAvailable {
		result.objects[0].probes = types.ProbeResultContainer{availableProbe: probing.TrueResult()}
	}
	e.record(rev, result, 0)
}

// The versions are reconciled from the newest one to the first that is complete, or to the current one.
func TestInstall_NewestFirst(t *testing.T) {
	var versions []v1alpha1.Version
	s := state{}
	for _, name := range []string{"4.22.0-2", "4.22.0-3", "4.22.0-10"} {
		version, configMap := storedVersion(t, name, settings("a", name))
		versions = append(versions, version)
		s = stateOf(versions, append(s.ConfigMaps, configMap)...)
	}
	for name, test := range map[string]struct {
		current     string
		unreadable  []int // indexes of ConfigMaps
		available   bool
		wantCurrent string
		wantReason  reason.Reason
		installed   *bool
		reached     bool // 4.22.0-3 is reconciled
	}{
		"the newest version is complete":        {"4.22.0-3", nil, false, "4.22.0-10", reason.AsExpected, new(true), false},
		"the newest version is unreadable":      {"4.22.0-3", []int{2}, true, "", reason.RevisionUnreadable, new(true), true},
		"the current version is unreadable too": {"4.22.0-3", []int{1, 2}, true, "", reason.RevisionUnreadable, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			empty := fake.NewClientBuilder().Build()
			engine := engineOf(t, empty, empty)
			for _, version := range versions {
				completed(t, engine, s, version, test.available)
			}
			changed := stateOf(versions, slices.Clone(s.ConfigMaps)...)
			changed.Cluster.Status.CurrentVersion = test.current
			for _, i := range test.unreadable {
				changed.ConfigMaps[i].BinaryData = nil
			}
			outcome, current := (&Reconciler{Engine: engine}).install(t.Context(), changed)
			if current != test.wantCurrent || outcome.Reason != test.wantReason || !cmp.Equal(outcome.Installed, test.installed) {
				t.Errorf("current %q, reason %s, installed %v: %v", current, outcome.Reason, outcome.Installed, outcome.Err)
			}
			if _, reached := outcome.Phases["4.22.0-3"]; reached != test.reached || outcome.Phases["4.22.0-2"] != nil {
				t.Errorf("phases of %v, want those of 4.22.0-3: %t, and never of 4.22.0-2", outcome.Phases, test.reached)
			}
		})
	}
}

// The certificates are checked again without an event, also after an error. With an error, nothing is known about the
// availability of the version.
func TestInstallVersion_RechecksCertificates(t *testing.T) {
	for _, object := range []*unstructured.Unstructured{webhookService(), settings("a", "red")} {
		version, configMap := storedVersion(t, "4.22.0-1", object)
		engine := &Engine{Cache: informers{failed: errors.New("down")}, Owners: owners}
		result := (&Reconciler{Engine: engine}).installVersion(t.Context(), stateOf([]v1alpha1.Version{version}, configMap), version)
		want := time.Duration(0)
		if object.GetKind() == "Service" {
			want = servingcert.RecheckInterval
		}
		if result.outcome.Recheck != want || result.outcome.Reason != reason.ApplyFailed {
			t.Errorf("%s: reason %s, recheck after %s, want %s", object.GetKind(), result.outcome.Reason, result.outcome.Recheck, want)
		}
		if result.complete || result.available != nil || result.phases != nil {
			t.Errorf("%s: after an error, complete %t, available %v, phases %v", object.GetKind(), result.complete, result.available, result.phases)
		}
	}
}

// A CRD that cannot be released is an error of the newest version, unless that version has another one.
func TestInstall_UnmanagedCRDNotReleased(t *testing.T) {
	version, configMap := storedVersion(t, "4.22.0-1", settings("a", "red"))
	down := apierrors.NewServiceUnavailable("down")
	for name, test := range map[string]struct {
		err        error
		unreadable bool
		want       reason.Reason
	}{
		"released":                  {nil, false, reason.AsExpected},
		"a failed read":             {down, false, reason.ApplyFailed},
		"an unreadable version too": {down, true, reason.RevisionUnreadable},
	} {
		s := stateOf([]v1alpha1.Version{version}, configMap)
		s.Cluster.Spec.UnmanagedCRDs = []string{machinesCRD}
		empty := fake.NewClientBuilder().WithScheme(crdScheme(t)).Build()
		engine := engineOf(t, empty, empty)
		completed(t, engine, s, version, true)
		if test.err != nil {
			engine.Reader = answer{test.err}
		}
		if test.unreadable {
			s.ConfigMaps[0].BinaryData = nil
		}
		outcome, _ := (&Reconciler{Engine: engine}).install(t.Context(), s)
		if outcome.Reason != test.want || errors.Is(outcome.Err, down) != (test.want == reason.ApplyFailed) {
			t.Errorf("%s: reason %s, want %s: %v", name, outcome.Reason, test.want, outcome.Err)
		}
		if again := outcome.Recheck == behindInterval; again != test.unreadable {
			t.Errorf("%s: the next attempt is after %s", name, outcome.Recheck)
		}
	}
}

// installedCluster is a cluster in which version 4.22.0-2 is complete and 4.22.0-1 is deleted.
type installedCluster struct {
	client.WithWatch
	reconciler *Reconciler
}

// newInstalledCluster returns a cluster with objects. The version that is deleted has the old objects; current and deleted
// edit the ConfigMaps.
func newInstalledCluster(t *testing.T, old []*unstructured.Unstructured, current, deleted func(*corev1.ConfigMap), objects ...client.Object) installedCluster {
	t.Helper()
	scheme := crdScheme(t)
	builder := runtime.NewSchemeBuilder(admissionv1.AddToScheme, configv1.Install, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	first, firstMap := storedVersion(t, "4.22.0-1", old...)
	second, secondMap := storedVersion(t, "4.22.0-2", settings("a", "red"))
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	s.Cluster.Status.CurrentVersion = second.Name
	deletedMap, currentMap := &s.ConfigMaps[0], &s.ConfigMaps[1]
	deletedMap.DeletionTimestamp, deletedMap.Finalizers = new(metav1.Now()), []string{v1alpha1.TeardownFinalizer, "x.io/theirs"}
	objects = append(objects, s.Cluster, deletedMap, currentMap)
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(s.Cluster, &configv1.ClusterOperator{}).WithObjects(objects...).Build()
	engine := engineOf(t, cluster, cluster)
	completed(t, engine, s, second, true)
	for configMap, edit := range map[*corev1.ConfigMap]func(*corev1.ConfigMap){deletedMap: deleted, currentMap: current} {
		if edit == nil {
			continue
		}
		edit(configMap)
		if err := cluster.Update(t.Context(), configMap); err != nil {
			t.Fatal(err)
		}
	}
	return installedCluster{cluster, &Reconciler{Client: cluster, Live: cluster, Engine: engine, Reporter: &status.Reporter{Client: cluster, Live: cluster}}}
}

// act sets the action of the last reconcile for the object of the complete version.
func (c installedCluster) act(action machinery.Action) {
	c.reconciler.Engine.compared["4.22.0-2"].phases["core"].objects[0].action = action
}

// damage removes the objects from a revision ConfigMap.
func damage(configMap *corev1.ConfigMap) { configMap.BinaryData = nil }

// blockedBy returns an object that a version controls and whose deletion another actor blocks.
func blockedBy(t *testing.T, version, name string) *unstructured.Unstructured {
	t.Helper()
	object := controlledBy(t, version, settings(name, "red"))
	object.SetFinalizers([]string{"x.io/theirs"})
	return object
}

// The removal of an older version is reported once the desired version is installed. An error of the desired version is
// more important.
func TestReconcile_InstallBeforeTeardown(t *testing.T) {
	for name, test := range map[string]struct {
		current, deleted func(*corev1.ConfigMap)
		action           machinery.Action
		want             reason.Reason
		message          string
		removing         bool // the status has the phases of the old version
	}{
		"the old version is removed":            {nil, nil, machinery.ActionIdle, reason.TearingDown, "removing version 4.22.0-1", true},
		"the old version is unreadable":         {nil, damage, machinery.ActionIdle, reason.ApplyFailed, "removing version 4.22.0-1", false},
		"the desired version is unreadable":     {damage, nil, machinery.ActionIdle, reason.RevisionUnreadable, "4.22.0-2", true},
		"both versions are unreadable":          {damage, damage, machinery.ActionIdle, reason.RevisionUnreadable, "4.22.0-2", false},
		"a collision":                           {nil, nil, machinery.ActionCollision, reason.Collision, "Secret a", true},
		"a collision and an unreadable version": {nil, damage, machinery.ActionCollision, reason.Collision, "Secret a", false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newInstalledCluster(t, []*unstructured.Unstructured{settings("old", "red")}, test.current, test.deleted, blockedBy(t, "4.22.0-1", "old"))
			cluster.act(test.action)
			result, err := cluster.reconciler.Reconcile(t.Context(), reconcile.Request{})
			if failed := test.want == reason.ApplyFailed || test.want == reason.RevisionUnreadable; (err != nil) != failed {
				t.Errorf("error is %v, want one: %t", err, failed)
			}
			if want := reason.Of(test.want).Recheck; result.RequeueAfter != want {
				t.Errorf("the next attempt is after %s, want %s", result.RequeueAfter, want)
			}
			got := &v1alpha1.ClusterAPI{}
			if err := cluster.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, got); err != nil {
				t.Fatal(err)
			}
			progressing := meta.FindStatusCondition(got.Status.Conditions, string(status.Installer)+status.Progressing)
			degraded := meta.FindStatusCondition(got.Status.Conditions, string(status.Installer)+status.Degraded)
			if progressing.Reason != string(test.want) || !strings.Contains(progressing.Message+degraded.Message, test.message) {
				t.Errorf("conditions are %v and %v, want reason %s with %q", progressing, degraded, test.want, test.message)
			}
			phases := got.Status.Version("4.22.0-1").Phases
			if removing := len(phases) == 1 && phases[0].State == v1alpha1.PhaseRemoving; removing != test.removing {
				t.Errorf("phases of the old version are %v, want one that is removed: %t", phases, test.removing)
			}
			if installed := got.Status.Version("4.22.0-2").Phases; (len(installed) > 0) != (test.current == nil) {
				t.Errorf("phases of the desired version are %v", installed)
			}
		})
	}
}

// The events are those of the desired version and of the removal. A CRD that stays is also in the condition.
func TestReconcile_Events(t *testing.T) {
	cluster := newInstalledCluster(t, []*unstructured.Unstructured{machines()}, nil, nil, controlledBy(t, "4.22.0-1", machines()))
	cluster.act(machinery.ActionUpdated)
	if _, err := cluster.reconciler.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	events := &corev1.EventList{}
	if err := cluster.List(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, event := range events.Items {
		found[event.Reason] += event.Message
	}
	for reason, want := range map[status.EventReason]string{status.CRDsKept: machinesCRD, status.DriftCorrected: "Secret a"} {
		if got := found[string(reason)]; !strings.Contains(got, want) {
			t.Errorf("event %s is %q, want it with %s", reason, got, want)
		}
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
