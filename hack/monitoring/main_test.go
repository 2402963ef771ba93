// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/hack/generated"
)

const root = "../.."

func TestGenerate_FilesAreUpToDate(t *testing.T) { generated.Committed(t, generate) }

var metricName = regexp.MustCompile(`capi_installer_[a-z_]+`)

// The end-to-end tests compare docs/metrics.md with the metrics that the program serves.
func TestDashboard_NamesExactlyTheDocumentedMetrics(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join(root, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, line := range strings.Split(string(docs), "\n") {
		if name, found := strings.CutPrefix(line, "| `"); found {
			documented[metricName.FindString(name)] = true
		}
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy/monitoring/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	dashboard := struct {
		Panels []struct {
			ID      int
			Targets []struct{ Expr string }
			GridPos struct{ X, Y int }
		}
	}{}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	shown, places := map[string]bool{}, map[[2]int]bool{}
	for _, panel := range dashboard.Panels {
		places[[2]int{panel.GridPos.X, panel.GridPos.Y}] = true
		for _, target := range panel.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
			if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
				t.Errorf("invalid query %s", target.Expr)
			}
		}
	}
	if !reflect.DeepEqual(shown, documented) || len(documented) < 10 {
		t.Errorf("the dashboard shows %v, documented are %v", shown, documented)
	}
	if len(places) != len(dashboard.Panels) {
		t.Errorf("%d panels are in %d places", len(dashboard.Panels), len(places))
	}
}

func TestRules_AreThoseOfThePrometheusRule(t *testing.T) {
	read := func(name string) (content struct{ Metadata, Spec, Groups any }) {
		data, err := os.ReadFile(filepath.Join(root, name))
		data = bytes.ReplaceAll(data, []byte(v1alpha1.OpenShiftNamespaces.Operator), []byte(v1alpha1.KubernetesNamespaces.Operator))
		if err == nil {
			err = yaml.Unmarshal(data, &content)
		}
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	want := read("manifests/0000_90_cluster-api_02_prometheusrule.yaml").Spec
	rule := read("deploy/monitoring/prometheusrule.yaml")
	if !reflect.DeepEqual(rule.Spec, want) || rule.Metadata.(map[string]any)["annotations"] != nil {
		t.Errorf("PrometheusRule differs: %v", rule)
	}
	if groups := read("deploy/monitoring/rules.yaml").Groups; !reflect.DeepEqual(map[string]any{"groups": groups}, want) {
		t.Errorf("rules.yaml differs: %v", groups)
	}
}
