// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// ownMetrics are the names of the program's own metrics in the output of /metrics.
func ownMetrics(served string) []string {
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (capi_installer_\w+) `).FindAllStringSubmatch(served, -1) {
		names = append(names, match[1])
	}
	return names
}

// TestMetrics_MatchDocumentation makes the program do everything that has a metric, and compares its metrics with
// docs/metrics.md in both directions.
func TestMetrics_MatchDocumentation(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0", configMap("settings")))
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	h.recreated("settings")
	cluster, err := h.clusterAPI()
	h.must(err)
	image := string(cluster.Status.Versions[0].Components[1].Image)
	before := cluster.DeepCopy() // a patch, because the installer can write the status concurrently
	cluster.Spec.ImageOverrides = []v1alpha1.ImageOverride{{Name: "cluster-api-provider-aws", Image: v1alpha1.ImageReference(image)}}
	cluster.Spec.UnmanagedCRDs = []string{"none.cluster.x-k8s.io"}
	h.must(h.Patch(t.Context(), cluster, client.MergeFrom(before)))

	want := []string{
		`capi_installer_paused 0`,
		`capi_installer_image_override_info{image="` + image + `",name="cluster-api-provider-aws"} 1`,
		`capi_installer_condition{condition="Available",status="True"} 1`,
		`capi_installer_component_info{component="cluster-api",component_version="v1.0.0",type="core",version="4.22.0-1"} 1`,
		`capi_installer_phase_state{phase="cluster-api",state="Complete",version="4.22.0-1"} 1`,
		`capi_installer_drift_corrections_total{kind="ConfigMap"} 1`,
		`capi_installer_image_pull_duration_seconds_count{result="success"} 2`,
	}
	served := ""
	for _, line := range want {
		h.eventually("/metrics contains "+line, func() error {
			served, err = get(p.Metrics + "/metrics")
			if err == nil && !strings.Contains(served, "\n"+line+"\n") {
				err = errors.New("the line is missing")
			}
			return err
		})
	}
	problems, err := promlint.New(strings.NewReader(served)).Lint()
	h.must(err)
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "capi_installer_") {
			t.Errorf("promlint: %s: %s", problem.Metric, problem.Text)
		}
	}
	docs, err := os.ReadFile("../../docs/metrics.md")
	h.must(err)
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(capi_installer_\\w+)` \\|").FindAllStringSubmatch(string(docs), -1) {
		documented = append(documented, match[1])
	}
	for _, name := range ownMetrics(served) {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
	// An unmanaged CRD of a provider, and a failed read.
	needCauses := []string{"capi_installer_preflight_incompatible_crds", "capi_installer_registry_failures_total"}
	for _, name := range documented {
		if !slices.Contains(ownMetrics(served), name) && !slices.Contains(needCauses, name) {
			t.Errorf("the program does not serve %s", name)
		}
	}
}
