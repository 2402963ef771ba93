// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// serviceMonitor and prometheusRule have the fields of monitoring.coreos.com/v1 that
// the manifests use. Decoding rejects others.
type serviceMonitor struct {
	v1.TypeMeta `json:",inline"`
	Metadata    v1.ObjectMeta `json:"metadata"`
	Spec        struct {
		Selector          v1.LabelSelector `json:"selector"`
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Endpoints []struct {
			Port            string `json:"port"`
			Interval        string `json:"interval"`
			Scheme          string `json:"scheme"`
			BearerTokenFile string `json:"bearerTokenFile"`
			TLSConfig       struct {
				CAFile     string `json:"caFile"`
				CertFile   string `json:"certFile"`
				KeyFile    string `json:"keyFile"`
				ServerName string `json:"serverName"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type prometheusRule struct {
	v1.TypeMeta `json:",inline"`
	Metadata    v1.ObjectMeta `json:"metadata"`
	Spec        struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

func readStrictly(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(name)
	must(t, err)
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func alerts(t *testing.T) []alert {
	t.Helper()
	rule := prometheusRule{}
	readStrictly(t, "0000_90_cluster-api_02_prometheusrule.yaml", &rule)
	var all []alert
	for _, group := range rule.Spec.Groups {
		all = append(all, group.Rules...)
	}
	if rule.Kind != "PrometheusRule" || rule.APIVersion != "monitoring.coreos.com/v1" || len(all) < 5 {
		t.Fatalf("it is a %s %s with %d alerts", rule.APIVersion, rule.Kind, len(all))
	}
	return all
}

func TestServiceMonitor_SelectsTheMetricsService(t *testing.T) {
	monitor := serviceMonitor{}
	readStrictly(t, "0000_90_cluster-api_01_servicemonitor.yaml", &monitor)
	for _, object := range objects(t) {
		if object.GetKind() != "Service" {
			continue
		}
		service := &corev1.Service{}
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, service))
		selector, err := v1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		must(t, err)
		if !selector.Matches(labels.Set(service.Labels)) || !slices.Contains(monitor.Spec.NamespaceSelector.MatchNames, service.Namespace) {
			t.Errorf("it does not select Service %s/%s", service.Namespace, service.Name)
		}
		if monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
			t.Errorf("it asks port %s of Service %s, which has %s", monitor.Spec.Endpoints[0].Port, service.Name, service.Spec.Ports[0].Name)
		}
		if want := service.Name + "." + service.Namespace + ".svc"; monitor.Spec.Endpoints[0].TLSConfig.ServerName != want || monitor.Spec.Endpoints[0].Scheme != "https" {
			t.Errorf("it connects by %s to %s, not by https to %s", monitor.Spec.Endpoints[0].Scheme, monitor.Spec.Endpoints[0].TLSConfig.ServerName, want)
		}
		return
	}
	t.Error("Service not found")
}

func TestAlerts_CompleteWithRunbook(t *testing.T) {
	documented := map[string]bool{}
	for _, alert := range alerts(t) {
		documented[alert.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			t.Errorf("%s has severity %q", alert.Alert, alert.Labels["severity"])
		}
		if !regexp.MustCompile(`^[0-9]+[mh]$`).MatchString(alert.For) || alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%s lacks a duration, a summary or a description", alert.Alert)
		}
		if !strings.HasSuffix(alert.Annotations["runbook_url"], "/docs/metrics.md#"+strings.ToLower(alert.Alert)) {
			t.Errorf("%s has the runbook %s", alert.Alert, alert.Annotations["runbook_url"])
		}
	}
	page, err := os.ReadFile("../docs/metrics.md")
	must(t, err)
	for _, section := range regexp.MustCompile(`(?m)^### (\w+)\n\n\S`).FindAllStringSubmatch(string(page), -1) {
		if !documented[section[1]] {
			t.Errorf("section %s of docs/metrics.md is about no alert", section[1])
		}
		delete(documented, section[1])
	}
	for name := range documented {
		t.Errorf("%s has no runbook", name)
	}
}

// TestAlerts_MetricsAreDocumented complements the test in test/e2e that compares
// docs/metrics.md with the metrics that the program serves.
func TestAlerts_MetricsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../docs/metrics.md")
	must(t, err)
	used := 0
	for _, alert := range alerts(t) {
		for _, name := range regexp.MustCompile(`\b[a-z_]+_[a-z_]+\b`).FindAllString(withoutStrings(alert.Expr), -1) {
			name = strings.TrimSuffix(name, "_count")
			if !strings.HasPrefix(name, "capi_installer_") {
				continue
			}
			used++
			if !strings.Contains(string(docs), "| `"+name+"` |") {
				t.Errorf("%s uses %s, which docs/metrics.md does not have", alert.Alert, name)
			}
		}
	}
	if used < len(alerts(t))-1 {
		t.Errorf("only %d metrics were found in %d alerts", used, len(alerts(t)))
	}
}

// withoutStrings returns an expression without its string literals.
func withoutStrings(expression string) string {
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expression, `""`)
}
