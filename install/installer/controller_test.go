// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
		wantReason  status.Reason
		installed   *bool
		reached     bool // 4.22.0-3 is reconciled
	}{
		"the newest version is complete":        {"4.22.0-3", nil, false, "4.22.0-10", status.AsExpected, new(true), false},
		"the newest version is unreadable":      {"4.22.0-3", []int{2}, true, "", status.RevisionUnreadable, new(true), true},
		"the current version is unreadable too": {"4.22.0-3", []int{1, 2}, true, "", status.RevisionUnreadable, nil, false},
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
		if result.outcome.Recheck != want || result.outcome.Reason != status.ApplyFailed {
			t.Errorf("%s: reason %s, recheck after %s, want %s", object.GetKind(), result.outcome.Reason, result.outcome.Recheck, want)
		}
		if result.complete || result.available != nil || result.phases != nil {
			t.Errorf("%s: after an error, complete %t, available %v, phases %v", object.GetKind(), result.complete, result.available, result.phases)
		}
	}
}
