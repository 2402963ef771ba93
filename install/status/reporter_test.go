// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// testCluster is a cluster with a ClusterAPI object, a clock, and the observed requests.
type testCluster struct {
	*testing.T
	client.Client
	at       time.Time
	writes   atomic.Int64 // requests that write
	noEvents atomic.Bool  // events do not reach the API server
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	w := &testCluster{T: t, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	cluster := controlplane.Shared(t)
	crds, err := fixture.OpenShiftCRDs(t.Context())
	w.must(err)
	objects, err := manifests.Objects()
	w.must(err)
	for _, o := range objects {
		if object.IsCRD(o) {
			crds = append(crds, o)
		}
	}
	w.must(fixture.InstallCRDs(t.Context(), cluster.Config, crds))
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, configv1.Install, v1alpha1.AddToScheme)
	w.must(builder.AddToScheme(scheme))
	config := rest.CopyConfig(cluster.Config)
	config.Wrap(w.observe)
	w.Client, err = client.New(config, client.Options{Scheme: scheme})
	w.must(err)
	w.must(w.Create(t.Context(), &v1alpha1.ClusterAPI{ObjectMeta: named(v1alpha1.ClusterAPIName)}))
	t.Cleanup(w.clear)
	return w
}

// clear deletes the objects of the test.
func (w *testCluster) clear() {
	ctx := context.Background()
	w.must(w.Delete(ctx, &v1alpha1.ClusterAPI{ObjectMeta: named(v1alpha1.ClusterAPIName)}))
	w.must(client.IgnoreNotFound(w.Delete(ctx, &configv1.ClusterOperator{ObjectMeta: named(v1alpha1.ClusterOperatorName)})))
	w.must(w.DeleteAllOf(ctx, &corev1.Event{}, client.InNamespace(metav1.NamespaceDefault)))
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func (w *testCluster) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

var errUnreachable = errors.New("the API server is unavailable")

func (w *testCluster) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			w.writes.Add(1)
			if w.noEvents.Load() && strings.HasSuffix(request.URL.Path, "/events") {
				return nil, errUnreachable
			}
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// reporter returns the reporter of a new process, with the clock of the test.
func (w *testCluster) reporter() *status.Reporter {
	return &status.Reporter{Controller: status.Installer, Client: w.Client, Live: w.Client, Now: func() time.Time { return w.at }}
}

// report reports an outcome of the installer controller and returns the object from the API server.
func (w *testCluster) report(reporter *status.Reporter, outcome status.Outcome) *v1alpha1.ClusterAPI {
	w.Helper()
	_, err := reporter.Report(w.Context(), w.clusterAPI(), outcome)
	w.must(err)
	return w.clusterAPI()
}

// events returns the reasons of the events about the ClusterAPI object, sorted.
func (w *testCluster) events() []string {
	w.Helper()
	list := &corev1.EventList{}
	w.must(w.List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault)))
	var reasons []string
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == "ClusterAPI" {
			reasons = append(reasons, event.Type+" "+event.Reason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

func TestReporter_EventsOnceAcrossRestarts(t *testing.T) {
	w := newTestCluster(t)
	collision := status.Outcome{Reason: reason.Collision, Message: "Service x is not ours", Installed: new(false)}
	w.report(w.reporter(), collision)
	want := []string{"Warning InstallerDegraded"}
	if diff := cmp.Diff(want, w.events()); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	before := w.writes.Load()
	for range 3 { // each is a new process
		w.at = w.at.Add(time.Hour)
		reporter := w.reporter()
		w.report(reporter, collision)
		w.report(reporter, collision)
	}
	if diff := cmp.Diff(want, w.events()); diff != "" {
		t.Errorf("events after restarts (-want +got):\n%s", diff)
	}
	if written := w.writes.Load() - before; written != 0 {
		t.Errorf("%d writes without a change", written)
	}
}

func TestReporter_RetriesFailedEvents(t *testing.T) {
	w := newTestCluster(t)
	w.noEvents.Store(true)
	reporter := w.reporter()
	done := status.Event{Reason: status.DriftCorrected, Message: "Deployment capa was edited"}
	w.report(reporter, status.Outcome{Reason: reason.AsExpected, Events: []status.Event{done}})
	if got := w.events(); len(got) != 0 {
		t.Fatalf("events reached the API server: %v", got)
	}
	w.noEvents.Store(false)
	w.report(reporter, status.Outcome{Reason: reason.AsExpected})
	if diff := cmp.Diff([]string{"Normal DriftCorrected"}, w.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func storedVersion() v1alpha1.Version {
	id := v1alpha1.Digest("sha256:" + strings.Repeat("ab", 32))
	return v1alpha1.Version{
		Name: "4.22.0-1", Revision: 1, ContentID: id, ManifestsDigest: id,
		Components: []v1alpha1.Component{{Name: "cluster-api", Type: "core", ContentID: id, ConfigMaps: []string{"a"}}},
	}
}

// desire has the version controller report a version as the desired one, and returns the object.
func (w *testCluster) desire(version v1alpha1.Version) *v1alpha1.ClusterAPI {
	w.Helper()
	reporter := w.reporter()
	reporter.Controller = status.Version
	reported, err := reporter.Report(w.Context(), w.clusterAPI(), status.Outcome{Reason: reason.RollingOut, Change: func(s *v1alpha1.ClusterAPIStatus) {
		s.Versions, s.DesiredVersion = []v1alpha1.Version{version}, version.Name
	}})
	w.must(err)
	return reported.Cluster
}

// The failure of a version is withdrawn when another one becomes the desired one, also if the installer reports the failure after that.
func TestReporter_FailureOfAFormerVersion(t *testing.T) {
	w := newTestCluster(t)
	reporter := w.reporter()
	stopped := status.Outcome{Reason: reason.Collision, Message: "ConfigMap a exists"}
	former := w.report(reporter, stopped)
	if !meta.IsStatusConditionTrue(former.Status.Conditions, "InstallerDegraded") {
		t.Fatalf("conditions %+v", former.Status.Conditions)
	}
	version := storedVersion()
	changed := w.desire(version)
	for _, kind := range []string{"InstallerDegraded", "Degraded"} {
		if meta.IsStatusConditionTrue(changed.Status.Conditions, kind) {
			t.Errorf("after the change %s is True", kind)
		}
	}
	for _, read := range []*v1alpha1.ClusterAPI{former, changed} {
		want := map[bool]metav1.ConditionStatus{true: metav1.ConditionFalse, false: metav1.ConditionTrue}[read == former]
		_, err := reporter.Report(t.Context(), read, stopped)
		w.must(err)
		for _, kind := range []string{"InstallerDegraded", "Degraded"} {
			if got := meta.FindStatusCondition(w.clusterAPI().Status.Conditions, kind).Status; got != want {
				t.Errorf("a failure of version %q: %s is %s, want %s", read.Status.DesiredVersion, kind, got, want)
			}
		}
	}
}

func TestReporter_PhaseTimesSurviveRestart(t *testing.T) {
	w := newTestCluster(t)
	version := storedVersion()
	w.desire(version)
	begin := metav1.NewTime(w.at)
	found := []v1alpha1.Phase{{
		Name: "cluster-api", State: v1alpha1.PhaseProgressing, Objects: 3, Ready: 2,
		WaitingFor: []v1alpha1.Waiting{{Object: "Deployment openshift-cluster-api/capi", Message: "0 of 1 replicas available"}},
	}}
	outcome := status.Outcome{Reason: reason.RollingOut, Phases: map[string][]v1alpha1.Phase{version.Name: found, "unknown": found}}
	w.report(w.reporter(), outcome)
	w.at = w.at.Add(10 * time.Minute)
	before := w.writes.Load()
	got := w.report(w.reporter(), outcome).Status.Versions[0].Phases
	found[0].Since, found[0].WaitingFor[0].Since = begin, begin
	if diff := cmp.Diff(found, got, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if written := w.writes.Load() - before; written != 0 {
		t.Errorf("%d writes without a change", written)
	}
}

// The spec changes while a controller works: its outcome is about the spec that it has read, also if the status must be written again after a conflict.
func TestReport_SpecChangesMeanwhile(t *testing.T) {
	w := newTestCluster(t)
	reporter := w.reporter()
	read := w.report(reporter, status.Outcome{Reason: reason.AsExpected})
	changed := read.DeepCopy()
	changed.Spec.UnmanagedCRDs = []string{"machines.cluster.x-k8s.io"}
	w.must(w.Update(t.Context(), changed))
	for _, controller := range []status.Controller{status.Version, status.Installer} {
		for _, start := range []*v1alpha1.ClusterAPI{read, w.clusterAPI()} {
			other := w.reporter()
			other.Controller = controller
			_, err := other.Report(t.Context(), start, status.Outcome{Reason: reason.RollingOut, Generation: read.Generation})
			w.must(err)
		}
	}
	now := w.report(reporter, status.Outcome{Reason: reason.AsExpected, Generation: changed.Generation})
	want := map[string]int64{"InstallerProgressing": changed.Generation, "InstallerDegraded": changed.Generation}
	if now.Status.ObservedGeneration != read.Generation {
		t.Errorf("the status has observed generation %d, want %d", now.Status.ObservedGeneration, read.Generation)
	}
	for _, condition := range now.Status.Conditions {
		if expected := max(want[condition.Type], read.Generation); condition.ObservedGeneration != expected {
			t.Errorf("%s has observed generation %d, want %d", condition.Type, condition.ObservedGeneration, expected)
		}
	}
}

// A process that decided before another process, and writes after it, does not take back the decision of the other.
func TestReport_DecisionOfAnotherProcess(t *testing.T) {
	w := newTestCluster(t)
	read := w.desire(storedVersion())
	next := storedVersion()
	next.Name, next.Revision = "4.22.0-2", 2
	for controller, decide := range map[status.Controller]func(*v1alpha1.ClusterAPIStatus, string){
		status.Version:   func(s *v1alpha1.ClusterAPIStatus, name string) { s.DesiredVersion = name },
		status.Installer: func(s *v1alpha1.ClusterAPIStatus, name string) { s.CurrentVersion = name },
	} {
		outcome := func(name string) status.Outcome {
			return status.Outcome{Reason: reason.RollingOut, Change: func(s *v1alpha1.ClusterAPIStatus) {
				s.Versions = []v1alpha1.Version{storedVersion(), next}
				decide(s, name)
			}}
		}
		one, other := w.reporter(), w.reporter()
		one.Controller, other.Controller = controller, controller
		want := w.report(one, outcome(next.Name)).Status
		if _, err := other.Report(t.Context(), read, outcome(storedVersion().Name)); err == nil {
			t.Errorf("%s: the outdated outcome was written", controller)
		}
		if got := w.clusterAPI().Status; got.DesiredVersion != want.DesiredVersion || got.CurrentVersion != want.CurrentVersion {
			t.Errorf("%s: the desired version is %q and the current one %q, want %q and %q", controller, got.DesiredVersion, got.CurrentVersion, want.DesiredVersion, want.CurrentVersion)
		}
	}
}

// staleOperator is a client whose cache stays at an older ClusterOperator.
type staleOperator struct {
	client.Client
	old *configv1.ClusterOperator
}

func (s staleOperator) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if operator, ok := into.(*configv1.ClusterOperator); ok {
		s.old.DeepCopyInto(operator)
		return nil
	}
	return s.Client.Get(ctx, key, into, options...)
}

// The cache has the related objects of the present release, but the API server the ones of a release in between. Its event about them causes no report.
func TestReporter_RelatedObjectsInAnOldCache(t *testing.T) {
	w := newTestCluster(t)
	w.report(w.reporter(), relating("alphas"))
	stale := w.reporter()
	stale.Client = staleOperator{w.Client, w.clusterOperator()}
	for _, resource := range []string{"betas", "alphas"} {
		w.report(stale, relating(resource))
		w.relates(resource)
	}
	restarted := w.reporter()
	restarted.Client = staleOperator{w.Client, w.clusterOperator()}
	w.report(stale, relating("betas"))
	w.report(restarted, relating("alphas"))
	w.relates("alphas")
	current := w.reporter()
	w.report(current, relating("alphas"))
	before := w.writes.Load()
	w.report(current, relating("alphas"))
	if written := w.writes.Load() - before; written != 0 {
		t.Errorf("%d writes without a change", written)
	}
}

// relating returns an outcome with a related object.
func relating(resource string) status.Outcome {
	return status.Outcome{Reason: reason.AsExpected, Related: []configv1.ObjectReference{{Resource: resource}}}
}

// relates fails the test unless the ClusterOperator has this related object.
func (w *testCluster) relates(resource string) {
	w.Helper()
	if got := w.clusterOperator().Status.RelatedObjects; len(got) != 1 || got[0].Resource != resource {
		w.Errorf("related objects are %v, want %s", got, resource)
	}
}
