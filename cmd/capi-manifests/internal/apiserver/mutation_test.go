// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/mutation"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestCluster_AgreesWithValidation sends the objects with the mistakes of build/contract/rules/testdata/mutations.json to an
// API server, by server-side apply with a dry run. For each rejected object, the validation must have an error, without
// exceptions; for each accepted object, none of a rule that is about rejection. Without E2E=full it tests one mistake of each rule.
func TestCluster_AgreesWithValidation(t *testing.T) {
	c := server(t)
	rejected, accepted := 0, 0
	for provider, mutations := range nativeMutations(t) {
		options, found := providersToAsk(t)[provider]
		if !found {
			continue // a rendered provider
		}
		b := compactBundle(t, options)
		before := errorsOf(contract.Check(b, rules.All()))
		for _, m := range mutations {
			mutated := b
			var object []byte
			var err error
			if mutated.Manifests, object, err = m.Apply(b.Manifests); err != nil {
				t.Fatal(err)
			}
			judged := againstServer(t, c, string(object))
			if slices.ContainsFunc(judged, func(f contract.Finding) bool { return f.Rule == contract.RuleNotChecked }) {
				continue // the API server lacks the version or the namespace
			}
			reasons := rejections(judged)
			after := errorsOf(contract.Check(mutated, rules.All()))
			switch {
			case len(reasons) == 0:
				accepted++
				for _, f := range falseOf(before, after) {
					t.Errorf("%s: the API server accepts the object, and the validation has the error %s: %s", m, f.Rule, f.Message)
				}
				continue
			case len(after) <= len(before):
				t.Errorf("%s: the API server rejects the object, and the validation has no error: %s", m, strings.Join(reasons, "; "))
			}
			rejected++
		}
	}
	t.Logf("%d mutated objects are rejected by the API server, %d are accepted", rejected, accepted)
	if rejected == 0 {
		t.Error("the API server rejects no mutated object")
	}
}

// nativeMutations returns the mutations of objects, by provider; without E2E=full one for each rule.
func nativeMutations(t *testing.T) map[string][]mutation.Mutation {
	t.Helper()
	all, err := mutation.Read("../../../../build/contract/rules/testdata/mutations.json")
	if err != nil {
		t.Fatal(err)
	}
	byProvider, rules := map[string][]mutation.Mutation{}, map[string]bool{}
	for _, m := range all {
		if m.File != "" || m.Object == "" || m.Removes() || rules[m.Rule] && os.Getenv("E2E") != "full" {
			continue
		}
		rules[m.Rule] = true
		byProvider[m.Provider] = append(byProvider[m.Provider], m)
	}
	return byProvider
}

func compactBundle(t *testing.T, options generate.Options) extractor.Bundle {
	t.Helper()
	b, _, err := generate.Bundle(options)
	if err == nil {
		b.Manifests, err = mutation.WithoutDescriptions(b.Manifests)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// errorsOf returns the findings of severity error.
func errorsOf(findings []contract.Finding) []contract.Finding {
	return slices.DeleteFunc(findings, func(f contract.Finding) bool { return f.Severity != contract.Error })
}

// rejections returns the API server's reasons to reject an object itself, not its pods or further objects of its kind.
func rejections(findings []contract.Finding) (reasons []string) {
	for _, f := range findings {
		if slices.Contains([]string{"server/object-accepted", "server/crd-established"}, f.Rule) {
			reasons = append(reasons, f.Field+": "+f.Message)
		}
	}
	return reasons
}

// falseOf returns the new errors of the rules about the API server's rejection of an object.
func falseOf(before, after []contract.Finding) []contract.Finding {
	rejecting := []string{"bundle/object-valid", "bundle/list-key-unique", "crd/valid"}
	return slices.DeleteFunc(slices.Clone(after), func(f contract.Finding) bool {
		return !slices.Contains(rejecting, f.Rule) || slices.Contains(before, f)
	})
}

// TestCluster_SeesMoreThanValidation compares both judges of the mistakes in testdata/mistakes.yaml: testdata/serveronly.txt lists those
// that only the API server sees. Validation finds the others.
func TestCluster_SeesMoreThanValidation(t *testing.T) {
	c := server(t)
	mistakes, err := os.ReadFile("testdata/mistakes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var serverOnly strings.Builder
	for document := range strings.SplitSeq(string(mistakes), "---\n") {
		mistake, _, _ := strings.Cut(strings.TrimPrefix(document, "# "), "\n")
		reasons := rejections(againstServer(t, c, document))
		found := falseOf(nil, errorsOf(contract.Check(extractor.Bundle{Manifests: []byte(document)}, rules.All())))
		switch {
		case len(reasons) == 0:
			t.Errorf("%s: the API server accepts the object; validation finds %v", mistake, found)
		case len(found) == 0:
			serverOnly.WriteString(mistake + "\n")
		}
	}
	scenario.Golden(t, "testdata/serveronly.txt", serverOnly.String())
}
