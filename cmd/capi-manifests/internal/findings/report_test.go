// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/pagetest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
)

// everything returns a validation with a finding of almost every rule, half of them accepted.
func everything(t *testing.T) Report {
	t.Helper()
	var bundles []extractor.Bundle
	for _, rule := range rules.All() {
		example, err := rule.Example()
		if err != nil {
			t.Fatal(err)
		}
		bundles = append(bundles, extractor.Bundle{Metadata: extractor.Metadata{ProviderName: "x\x1b[31m", ProviderType: extractor.Addon}, Manifests: []byte(example.Bad)})
	}
	v := Check("out", bundles)
	accepted := &Waivers{Baseline: map[string]int{}}
	for i, f := range v.all() {
		if i%2 == 0 {
			accepted.Baseline[fingerprint(f)]++
		}
	}
	v.Accept(accepted)
	if v.Accepted == 0 || v.Counts[contract.Error] == 0 {
		t.Fatalf("got %d accepted findings, counts %v", v.Accepted, v.Counts)
	}
	return v
}

func TestJSON_ValidatesAgainstTheSchema(t *testing.T) {
	if err := schematest.Validate(schema.Validation, everything(t).Write(JSON, false)); err != nil {
		t.Error(err)
	}
	if err := schematest.Validate(schema.Validation, []byte(`{"source": "out", "bundles": [{"findings": [{"rule": "x"}]}]}`)); err == nil {
		t.Error("the schema accepts an invalid report")
	}
}

func TestSARIF_ValidatesAgainstTheStandard(t *testing.T) {
	v := everything(t)
	report, err := sarif.FromBytes(v.Write(SARIF, false))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(); err != nil {
		t.Error(err)
	}
	results := report.Runs[0].Results
	if want := len(v.all()) + v.Accepted; len(results) != want {
		t.Errorf("%d results for %d findings", len(results), want)
	}
	suppressed := 0
	for _, result := range results {
		if len(result.Suppressions) > 0 {
			suppressed++
		}
	}
	if suppressed != v.Accepted {
		t.Errorf("%d results are suppressed, %d findings accepted", suppressed, v.Accepted)
	}
}

func TestJUnit_CaseForEachRule(t *testing.T) {
	v := everything(t)
	var suites junitSuites
	if err := xml.Unmarshal(v.Write(JUnit, false), &suites); err != nil {
		t.Fatal(err)
	}
	if want := len(contract.RulesOf(contract.FormBundle, rules.All())) * len(v.Bundles); suites.Tests != want {
		t.Errorf("got %d cases, want %d", suites.Tests, want)
	}
	for _, test := range suites.Suites[0].Cases {
		if strings.HasPrefix(test.Name, "server/") && test.Skipped == nil {
			t.Errorf("%s passed without an API server", test.Name)
		}
	}
	failed := map[string]bool{}
	for i, bundle := range v.Bundles {
		for _, f := range bundle.Findings {
			if f.Severity == contract.Error {
				failed[string(rune(i))+f.Rule] = true
			}
		}
	}
	if suites.Failures != len(failed) {
		t.Errorf("got %d failures, want %d", suites.Failures, len(failed))
	}
}

func TestReport_HasNoControlCharacters(t *testing.T) {
	bundle := extractor.Bundle{
		Metadata:  extractor.Metadata{ProviderName: "a\x1b[2Jb\u202e", ProviderType: extractor.Core, ProviderVersion: "v1\x07"},
		Manifests: []byte("apiVersion: v1\nkind: \"Secret\\e[31m\"\nmetadata: {name: \"a\\e]0;title\\a\", namespace: \"x\\u009b2J\"}\n"),
	}
	v := Check("out\x1b[31m", []extractor.Bundle{bundle})
	for _, format := range []Format{Text, JSON, SARIF, JUnit, GitHub} {
		pagetest.CheckPrintable(t, string(v.Write(format, false)))
	}
}

func TestAccept_BaselineCountsFindings(t *testing.T) {
	f := contract.Finding{Rule: "a/b", Object: "Secret x"}
	v := Report{Bundles: []Bundle{{Findings: []contract.Finding{f, f, f}}}}
	v.Accept(&Waivers{Baseline: map[string]int{fingerprint(f): 2}})
	if len(v.Bundles[0].Findings) != 1 || v.Accepted != 2 {
		t.Errorf("got %d findings, %d accepted", len(v.Bundles[0].Findings), v.Accepted)
	}
}

func TestCheckReleases_JSONValidatesAgainstTheSchema(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"ipam-x/v1.0.0/ipam-components.yaml": "", "cluster-api/v1.0.0/core-components.yaml": "kind: [\n"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v, err := CheckReleases(dir, source.ClusterctlReleases(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := schematest.Validate(schema.Validation, v.Write(JSON, false)); err != nil {
		t.Error(err)
	}
	if len(v.Bundles) != 2 || v.Counts[contract.Error] == 0 || !v.Invalid {
		t.Errorf("%d releases, %v, invalid: %t", len(v.Bundles), v.Counts, v.Invalid)
	}
}

func TestText_RepeatedFindingsAreOneWithACount(t *testing.T) {
	var all []contract.Finding
	for i := range 5 {
		all = append(all, contract.Finding{File: "m.yaml", Line: i + 1, Rule: "a/selector", Severity: contract.Warning, Object: fmt.Sprint("Webhook ", i), Message: "no selector"})
	}
	for i := range maxRepeated {
		all = append(all, contract.Finding{File: "m.yaml", Rule: "a/other", Severity: contract.Error, Object: fmt.Sprint("Service ", i), Message: "no port"})
	}
	report := Report{Bundles: []Bundle{{Findings: all}}}
	text := string(report.Write(Text, false))
	if !strings.Contains(text, "m.yaml:1: warning: Webhook 0: no selector (and 4 more, at m.yaml:2 and m.yaml:3) [a/selector]\n") || strings.Count(text, "[a/selector]") != 1 {
		t.Errorf("repeated findings are not merged:\n%s", text)
	}
	if strings.Count(text, "[a/other]") != maxRepeated {
		t.Errorf("%d findings are merged:\n%s", maxRepeated, text)
	}
	if github := string(report.Write(GitHub, false)); strings.Count(github, "::warning ") != 1 || !strings.Contains(github, "no selector (and 4 more, at m.yaml:2 and m.yaml:3)") {
		t.Errorf("annotations are not merged:\n%s", github)
	}
}
