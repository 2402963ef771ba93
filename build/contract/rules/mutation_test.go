// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/mutation"
)

// TestCheck_FindsMutations applies each mutation of testdata/mutations.json to a bundle or release of a real provider
// and checks that its rule has a new finding, and that no unrelated rule has one. With -v it prints the table.
// Mutations of rendered providers need the folder PROVIDERS.
func TestCheck_FindsMutations(t *testing.T) {
	mutations, err := mutation.Read("testdata/mutations.json")
	if err != nil {
		t.Fatal(err)
	}
	subjects := subjects(t)
	byProvider := map[string][]mutation.Mutation{}
	for _, m := range mutations {
		byProvider[m.Provider] = append(byProvider[m.Provider], m)
	}
	var lock sync.Mutex
	var results []mutationResult
	t.Run("providers", func(t *testing.T) {
		for provider, all := range byProvider {
			t.Run(provider, func(t *testing.T) {
				subject, found := subjects[provider]
				if !found && os.Getenv("PROVIDERS") == "" {
					t.Skip("needs rendered providers in PROVIDERS")
				}
				if !found {
					t.Fatal("unknown provider")
				}
				t.Parallel()
				checked := checkMutations(t, subject(t), all)
				lock.Lock()
				defer lock.Unlock()
				results = append(results, checked...)
			})
		}
	})
	t.Log(mutationTable(results))
	for _, r := range results {
		if r.Rule != "" && !r.found {
			t.Errorf("%s: rule %s has no finding", r.Mutation, r.Rule)
		}
		for _, rule := range r.falseRules {
			t.Errorf("%s: false finding of rule %s", r.Mutation, rule)
		}
	}
}

// mutationResult is the outcome of the validation of one mutation.
type mutationResult struct {
	mutation.Mutation
	found bool
	// falseRules are the rules with new findings that are neither expected nor consequences of the mistake.
	falseRules []string
}

// mutationSubject is a provider as a bundle and as a release for clusterctl.
type mutationSubject struct {
	bundle  extractor.Bundle
	release contract.Release
}

// subjects returns the providers, without the descriptions and the deep fields in their CRDs.
func subjects(t *testing.T) map[string]func(*testing.T) mutationSubject {
	t.Helper()
	makers := released(t)
	maps.Copy(makers, rendered(t))
	all := map[string]func(*testing.T) mutationSubject{}
	for name, maker := range makers {
		all[name] = func(t *testing.T) mutationSubject {
			t.Helper()
			bundle := maker(t)
			var err error
			if bundle.Manifests, err = mutation.WithoutDeepFields(bundle.Manifests); err != nil {
				t.Fatal(err)
			}
			return mutationSubject{bundle, templatedRelease(t, bundle)}
		}
	}
	return all
}

// templatedRelease returns a release of the objects of a bundle, with the cluster template and the ClusterClass in
// testdata/release.
func templatedRelease(t *testing.T, bundle extractor.Bundle) contract.Release {
	t.Helper()
	label := contract.ProviderLabel(bundle.Metadata)
	release := contract.Release{Dir: label + "/" + bundle.Metadata.ProviderVersion, Files: map[string][]byte{
		contract.ComponentsNames[bundle.Metadata.ProviderType]: fmt.Appendf(nil,
			"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: openshift-cluster-api\n  labels: {cluster.x-k8s.io/provider: %s}\n---\n%s", label, bundle.Manifests),
	}}
	for _, name := range []string{"metadata.yaml", "cluster-template.yaml", "cluster-template-topology.yaml", "clusterclass-quick-start.yaml"} {
		data, err := os.ReadFile("testdata/release/" + name)
		if err != nil {
			t.Fatal(err)
		}
		release.Files[name] = data
	}
	return release
}

func checkMutations(t *testing.T, subject mutationSubject, mutations []mutation.Mutation) []mutationResult {
	t.Helper()
	bundleBefore := countByRule(contract.Check(subject.bundle, rules.All()))
	_, findings := contract.CheckRelease(subject.release, rules.All())
	releaseBefore := countByRule(findings)
	var results []mutationResult
	for _, m := range mutations {
		if m.File == "" {
			results = append(results, resultOf(m, bundleBefore, countByRule(contract.Check(mutatedBundle(t, subject.bundle, m), rules.All()))))
			continue
		}
		_, findings := contract.CheckRelease(mutatedRelease(t, subject.release, m), rules.All())
		results = append(results, resultOf(m, releaseBefore, countByRule(findings)))
	}
	return results
}

func resultOf(m mutation.Mutation, before, after map[string]int) mutationResult {
	result := mutationResult{Mutation: m}
	for rule, count := range after {
		switch {
		case count <= before[rule]:
		case rule == m.Rule:
			result.found = true
		case !slices.Contains(m.Also, rule):
			result.falseRules = append(result.falseRules, rule)
		}
	}
	slices.Sort(result.falseRules)
	return result
}

func mutatedBundle(t *testing.T, bundle extractor.Bundle, m mutation.Mutation) extractor.Bundle {
	t.Helper()
	var err error
	if m.Object != "" {
		bundle.Manifests, _, err = m.Apply(bundle.Manifests)
	} else {
		bundle.Metadata, err = mutatedMetadata(bundle.Metadata, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func mutatedMetadata(metadata extractor.Metadata, m mutation.Mutation) (mutated extractor.Metadata, err error) {
	data, err := json.Marshal(metadata)
	if err == nil {
		data, err = m.ApplyJSON(data)
	}
	if err == nil {
		err = json.Unmarshal(data, &mutated)
	}
	return mutated, err
}

func mutatedRelease(t *testing.T, release contract.Release, m mutation.Mutation) contract.Release {
	t.Helper()
	files := maps.Clone(release.Files)
	var err error
	switch {
	case m.File == ".":
		files, err = mutatedFiles(files, m)
	case m.Object == "": // the file is one document without a name
		var data []byte
		if data, err = yaml.YAMLToJSON(files[m.File]); err == nil {
			files[m.File], err = m.ApplyJSON(data)
		}
	default:
		files[m.File], _, err = m.Apply(files[m.File])
	}
	if err != nil {
		t.Fatal(err)
	}
	return contract.Release{Dir: release.Dir, Files: files}
}

func mutatedFiles(files map[string][]byte, m mutation.Mutation) (map[string][]byte, error) {
	data, err := json.Marshal(files)
	if err == nil {
		data, err = m.ApplyJSON(data)
	}
	mutated := map[string][]byte{}
	if err == nil {
		err = json.Unmarshal(data, &mutated)
	}
	return mutated, err
}

func countByRule(findings contract.Findings) map[string]int {
	counts := map[string]int{}
	for _, f := range findings {
		counts[f.Rule]++
	}
	return counts
}

// mutationTable lists the mutations by rule, with the totals in the first line.
func mutationTable(results []mutationResult) string {
	type row struct {
		mutations, found int
		falseRules       []string
	}
	rows, total := map[string]*row{}, row{}
	valid := 0
	for _, r := range results {
		one := rows[r.Rule]
		if one == nil {
			one = &row{}
			rows[r.Rule] = one
		}
		if r.Rule == "" {
			valid++
		}
		for _, sum := range []*row{one, &total} {
			sum.mutations++
			sum.falseRules = append(sum.falseRules, r.falseRules...)
			if r.found {
				sum.found++
			}
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d mutations: %d mistakes, %d found by their rules; %d valid changes; %d false findings\n",
		total.mutations, total.mutations-valid, total.found, valid, len(total.falseRules))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tMUTATIONS\tFOUND\tFALSE")
	for _, rule := range slices.Sorted(maps.Keys(rows)) {
		one := rows[rule]
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", cmp.Or(rule, "(none: valid)"), one.mutations, one.found, strings.Join(one.falseRules, " "))
	}
	if err := table.Flush(); err != nil {
		panic(err) // a strings.Builder accepts every write
	}
	return text.String()
}
