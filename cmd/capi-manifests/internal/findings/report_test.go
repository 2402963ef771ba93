// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// everything is a validation with a finding of almost every rule, half of them accepted.
func everything(t *testing.T) validation {
	t.Helper()
	var bundles []extractor.Bundle
	for _, rule := range contract.Rules() {
		example, err := rule.Example()
		if err != nil {
			t.Fatal(err)
		}
		bundles = append(bundles, extractor.Bundle{Metadata: extractor.Metadata{ProviderName: "x\x1b[31m", ProviderType: extractor.Addon}, Manifests: []byte(example.Bad)})
	}
	v := validate("out", bundles)
	accepted := &acceptances{known: map[string]int{}}
	for i, f := range v.all() {
		if i%2 == 0 {
			accepted.known[fingerprint(f)]++
		}
	}
	v.accept(accepted)
	if v.Accepted == 0 || v.Counts[contract.Error] == 0 {
		t.Fatalf("%d findings are accepted, counts %v", v.Accepted, v.Counts)
	}
	return v
}

func compiled(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join("schema", file))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func conforms(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestTheJSONOfValidateIsAsItsSchemaSays(t *testing.T) {
	schema := compiled(t, "validation.json")
	if err := conforms(t, schema, everything(t).format(asFindings, false)); err != nil {
		t.Error(err)
	}
	if err := conforms(t, schema, []byte(`{"source": "out", "bundles": [{"findings": [{"rule": "x"}]}]}`)); err == nil {
		t.Error("the schema takes anything")
	}
	if id := validationSchema; !strings.HasSuffix(id, "/schema/validation.json") || !strings.Contains(schema.ID+schema.Location, "validation.json") {
		t.Errorf("the schema is published as %s, but is %s", id, schema.Location)
	}
}

func TestTheConfigFileInTheHelpIsAsItsSchemaSays(t *testing.T) {
	_, text, _ := strings.Cut(validateLong, "until a day:\n")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(file); err != nil {
		t.Error(err)
	}
	schema := compiled(t, "config.json")
	for text, good := range map[string]bool{text: true, "validate: {waivers: [{rule: a/b}]}": false, "validat: {}": false} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := conforms(t, schema, data); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTheSARIFOfValidateIsAsTheStandardSays(t *testing.T) {
	v := everything(t)
	report, err := sarif.FromBytes(v.format(asSARIF, false))
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

func TestTheJUnitOfValidateHasACaseForEachRule(t *testing.T) {
	v := everything(t)
	var suites junitSuites
	if err := xml.Unmarshal(v.format(asJUnit, false), &suites); err != nil {
		t.Fatal(err)
	}
	if want := len(contract.RulesOf(contract.FormBundle)) * len(v.Bundles); suites.Tests != want {
		t.Errorf("%d cases, not %d", suites.Tests, want)
	}
	for _, test := range suites.Suites[0].Cases {
		if strings.HasPrefix(test.Name, "server/") && test.Skipped == nil {
			t.Errorf("no API server was asked, and %s passed", test.Name)
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
		t.Errorf("%d failures, not %d", suites.Failures, len(failed))
	}
}

func TestWhatStandsInAnImageNeverSteersATerminal(t *testing.T) {
	bundle := extractor.Bundle{
		Metadata:  extractor.Metadata{ProviderName: "a\x1b[2Jb\u202e", ProviderType: extractor.Core, ProviderVersion: "v1\x07"},
		Manifests: []byte("apiVersion: v1\nkind: \"Secret\\e[31m\"\nmetadata: {name: \"a\\e]0;title\\a\", namespace: \"x\\u009b2J\"}\n"),
	}
	v := validate("out\x1b[31m", []extractor.Bundle{bundle})
	for _, format := range []findingsFormat{asText, asFindings, asSARIF, asJUnit, asGitHub} {
		for _, r := range string(v.format(format, false)) {
			if r != '\n' && (r < ' ' || 0x7f <= r && r < 0xa0) {
				t.Errorf("%s has the control character %U", format.String(), r)
			}
		}
	}
}

func TestTheFindingsOfABaselineAreAcceptedAsOftenAsTheyWereThere(t *testing.T) {
	f := contract.Finding{Rule: "a/b", Object: "Secret x"}
	v := validation{Bundles: []validatedBundle{{Findings: []contract.Finding{f, f, f}}}}
	v.accept(&acceptances{known: map[string]int{fingerprint(f): 2}})
	if len(v.Bundles[0].Findings) != 1 || v.Accepted != 2 {
		t.Errorf("%d findings are left, %d accepted", len(v.Bundles[0].Findings), v.Accepted)
	}
}
