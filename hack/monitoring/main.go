// SPDX-License-Identifier: Apache-2.0

// Program monitoring writes deploy/monitoring: a Grafana dashboard with a panel per metric of
// docs/metrics.md, and the alerts of manifests for clusters without OpenShift's monitoring,
// as a PrometheusRule and as a rules file of Prometheus.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/hack/generated"
)

//go:generate go run . ../..

func main() { generated.Main(generate) }

// generate returns the files by their paths in the repository.
func generate(root string) (map[string][]byte, error) {
	docs, err := os.ReadFile(filepath.Join(root, "docs/metrics.md"))
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(filepath.Join(root, "manifests/0000_90_cluster-api_02_prometheusrule.yaml"))
	if err != nil {
		return nil, err
	}
	dashboard, err := dashboardOf(metricsIn(string(docs)))
	if err != nil {
		return nil, err
	}
	source = bytes.ReplaceAll(source, []byte(v1alpha1.OpenShiftNamespaces.Operator), []byte(v1alpha1.KubernetesNamespaces.Operator))
	rule, rules, err := alerts(source)
	return map[string][]byte{
		"deploy/monitoring/dashboard.json":      dashboard,
		"deploy/monitoring/prometheusrule.yaml": rule,
		"deploy/monitoring/rules.yaml":          rules,
	}, err
}

// metric is a row of docs/metrics.md.
type metric struct {
	name, kind, meaning string
	labels              []string
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([a-z_, ]*) ?\\| (.*) \\|$")

func metricsIn(docs string) (metrics []metric) {
	for _, match := range row.FindAllStringSubmatch(docs, -1) {
		m := metric{name: match[1], kind: match[2], meaning: strings.ReplaceAll(match[4], "`", "")}
		if labels := strings.TrimSpace(match[3]); labels != "" {
			m.labels = strings.Split(labels, ", ")
		}
		metrics = append(metrics, m)
	}
	return metrics
}

// query returns the PromQL expression of a metric's panel.
func (m metric) query() string {
	by := strings.Join(m.labels, ", ")
	switch {
	case m.kind == "histogram":
		return fmt.Sprintf("histogram_quantile(0.9, sum by (%s) (rate(%s_bucket[$__rate_interval])))", strings.Join(append([]string{"le"}, m.labels...), ", "), m.name)
	case m.kind == "counter":
		return fmt.Sprintf("sum by (%s) (increase(%s[$__rate_interval]))", by, m.name)
	case m.isTime():
		return fmt.Sprintf("time() - max by (%s) (%s)", by, m.name)
	case m.isState():
		return fmt.Sprintf("max by (%s) (%s) == 1", by, m.name)
	case by == "":
		return fmt.Sprintf("max(%s)", m.name)
	}
	return fmt.Sprintf("max by (%s) (%s)", by, m.name)
}

func (m metric) isTime() bool { return strings.HasSuffix(m.name, "_time_seconds") }

// isState reports whether the labels with the value 1 are the state.
func (m metric) isState() bool {
	return strings.HasSuffix(m.name, "_info") || strings.HasSuffix(m.name, "_state") || strings.HasSuffix(m.name, "_condition")
}

// unit is Grafana's unit of the panel.
func (m metric) unit() string {
	switch {
	case strings.Contains(m.name, "_seconds"):
		return "s"
	case strings.Contains(m.name, "_bytes"):
		return "bytes"
	}
	return "short"
}

func (m metric) panel(index int) map[string]any {
	kind, format := "timeseries", "time_series"
	if m.isState() {
		kind, format = "table", "table"
	}
	var legend []string
	for _, label := range m.labels {
		legend = append(legend, "{{"+label+"}}")
	}
	datasource := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	return map[string]any{
		"id": index + 1, "type": kind, "title": title(m.name), "description": m.name + ": " + m.meaning, "datasource": datasource,
		"gridPos":     map[string]any{"x": index % 2 * 12, "y": index / 2 * 8, "w": 12, "h": 8},
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": m.unit()}, "overrides": []any{}},
		"targets": []any{map[string]any{
			"refId": "A", "expr": m.query(), "legendFormat": strings.Join(legend, " "), "format": format, "instant": m.isState(), "datasource": datasource,
		}},
	}
}

// title returns the words of a metric's name.
func title(name string) string {
	words := strings.ReplaceAll(strings.TrimPrefix(name, "capi_installer_"), "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

func dashboardOf(metrics []metric) ([]byte, error) {
	if len(metrics) == 0 {
		return nil, errors.New("docs/metrics.md has no table of metrics")
	}
	var panels []any
	for i, m := range metrics {
		panels = append(panels, m.panel(i))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(map[string]any{
		"title": "Cluster API installer", "uid": "capi-installer", "schemaVersion": 39, "tags": []string{"cluster-api"}, "editable": true,
		"time": map[string]any{"from": "now-6h", "to": "now"}, "refresh": "1m", "panels": panels,
		"templating": map[string]any{"list": []any{map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}},
	})
	return out.Bytes(), err
}

const header = "# SPDX-License-Identifier: Apache-2.0\n# Generated from manifests/0000_90_cluster-api_02_prometheusrule.yaml by make generate.\n"

// alerts returns the PrometheusRule without the annotations of OpenShift's releases, and its
// groups as a rules file.
func alerts(source []byte) (rule, rules []byte, err error) {
	content := struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}{}
	if err := yaml.Unmarshal(source, &content); err != nil {
		return nil, nil, err
	}
	delete(content.Metadata, "annotations")
	if rule, err = yaml.Marshal(content); err != nil {
		return nil, nil, err
	}
	rules, err = yaml.Marshal(content.Spec)
	return append([]byte(header), rule...), append([]byte(header), rules...), err
}
