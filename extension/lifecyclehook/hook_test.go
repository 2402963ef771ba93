// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Cluster API's catalog has each hook as a blocking one, and no other blocking hook before an operation, except the deletion.
func TestHooks_MatchTheCatalog(t *testing.T) {
	known := catalog.New()
	if err := hooksv1.AddToCatalog(known); err != nil {
		t.Fatal(err)
	}
	var want []string
	for gvh := range known.AllKnownHooks() {
		response, err := known.NewResponse(gvh)
		if err != nil {
			t.Fatal(err)
		}
		if _, blocking := response.(hooksv1.RetryResponseObject); blocking && strings.HasPrefix(gvh.Hook, "Before") && gvh.Hook != "BeforeClusterDelete" {
			want = append(want, gvh.Hook)
		}
	}
	var got []string
	for _, served := range hooks {
		got = append(got, served.name)
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("served hooks %q, want %q", got, want)
	}
}

// version returns a version with a core provider.
func version(core string) v1alpha1.Version {
	return v1alpha1.Version{Components: []v1alpha1.Component{{Type: "core", Version: core}, {Type: "infrastructure", Version: "v0.1.0"}}}
}

func TestDiscovered_DependsOnTheOldestCoreProvider(t *testing.T) {
	old, current := []string{"before-cluster-create", "before-cluster-upgrade"},
		[]string{"before-cluster-create", "before-cluster-upgrade", "before-control-plane-upgrade", "before-workers-upgrade"}
	for _, test := range []struct {
		name     string
		versions []v1alpha1.Version
		want     []string
	}{
		{"no version", nil, old},
		{"a version without a number", []v1alpha1.Version{version("main")}, old},
		{"v1.11", []v1alpha1.Version{version("v1.11.5")}, old},
		{"v1.12", []v1alpha1.Version{version("v1.12.0")}, current},
		{"v2.0", []v1alpha1.Version{version("v2.0.0")}, current},
		{"an upgrade", []v1alpha1.Version{version("v1.11.5"), version("v1.14.2")}, old},
		{"an upgrade of another provider", []v1alpha1.Version{version("v1.14.2"), version("v1.14.2")}, current},
	} {
		cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{Versions: test.versions}}
		var got []string
		for _, handler := range discovered(coreSeries(cluster)) {
			got = append(got, handler.Name)
			if *handler.FailurePolicy != hooksv1.FailurePolicyIgnore {
				t.Errorf("handler %s has failure policy %s", handler.Name, *handler.FailurePolicy)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: handlers %q, want %q", test.name, got, test.want)
		}
	}
}
