// SPDX-License-Identifier: Apache-2.0

package generate_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// forkDifferences are the accepted differences from the shipped manifests: a pattern of a line "object field", the
// difference, and its reason. They apply to every fork, and docs/manifests-gen.md lists them.
var forkDifferences = []struct{ pattern, difference, reason string }{
	{`^Deployment \S+ \.spec\.template\.metadata\.annotations\.openshift\.io/required-scc: shipped restricted-v2, generated nonroot-v2`,
		"pods with a fixed user require SCC `nonroot-v2` instead of `restricted-v2`", "`restricted-v2` rejects pods that set a user"},
	{`^Deployment \S+ \.spec\.template\.metadata\.annotations\.(openshift\.io/required-scc|target\.workload\.openshift\.io/management): shipped <nil>`,
		"the annotations `openshift.io/required-scc` and `target.workload.openshift.io/management` are added", "the component of manifests-gen in older forks has no annotations"},
	{`^Deployment \S+ \.spec\.template\.spec\.containers\[\d+\]\.imagePullPolicy: shipped Always, generated IfNotPresent`,
		"`imagePullPolicy` is `IfNotPresent` instead of `Always`", "the component of manifests-gen in older forks keeps the value; without a registry, a pod could not start again"},
	{`^Deployment \S+ \.(spec\.strategy|status): shipped map\[\], generated <nil>`,
		"`spec.strategy` and `status` of a Deployment are absent instead of `{}`", "manifests-gen writes empty structs of Go's types; they have no meaning"},
	{`^CustomResourceDefinition \S+ \.spec\.conversion\.webhook\.clientConfig\.caBundle: shipped Cg==, generated <nil>`,
		"`caBundle` of a conversion webhook is absent instead of `Cg==`", "`Cg==` is a line break, a placeholder of controller-gen; service-ca writes the bundle"},
	{`^ValidatingAdmissionPolicy(Binding)? openshift-cluster-api-protect-\S+ \.metadata\.labels`,
		"the objects that protect InfraClusters have the provider label", "every object of a provider has it"},
	{`^ValidatingAdmissionPolicy(Binding)? \S+ \.metadata\.namespace`,
		"an admission policy has no namespace, also in `manifests-summary.yaml`, where its position changes", "the kind is cluster-scoped; the API server drops the namespace"},
	{`^ValidatingAdmissionPolicy openshift-cluster-api-protect-\S+ \.spec\.validations\[0\]\.expression`,
		"the expression of the admission policy that protects InfraClusters", "no InfraCluster belongs to a cluster without an infrastructure name; the shipped expression fails there"},
	{`^Deployment \S+ \.spec\.template\.spec\.containers\[\d+\]\.lifecycle: shipped <nil>`,
		"`lifecycle.preStop.sleep` in containers that serve webhooks", "without it, requests fail in upgrades, because the old pod closes its port before all nodes know it"},
	{`\.webhooks\[\d+\]\.namespaceSelector: shipped <nil>`,
		"a `namespaceSelector` in webhooks", "the component of manifests-gen in older forks does not restrict webhooks to the namespace of the providers"},
}

// TestForkDifferences_AreDocumented compares the table of docs/manifests-gen.md with forkDifferences. UPDATE=1 writes it.
func TestForkDifferences_AreDocumented(t *testing.T) {
	const file, head = "../../docs/manifests-gen.md", "| difference | reason |\n|---|---|\n"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), head)
	_, after, end := strings.Cut(after, "\n\n")
	if !found || !end {
		t.Fatalf("%s has no table of differences", file)
	}
	rows := "| the objects in `manifests.yaml` are in another order | it is the apply order; the order of manifests-gen has no meaning |\n"
	for _, d := range forkDifferences {
		rows += fmt.Sprintf("| %s | %s |\n", d.difference, d.reason)
	}
	scenario.Golden(t, file, before+head+rows+"\n"+after)
}

// TestBundle_SameAsManifestsGen generates the bundle of each fork of a provider in the folder FORKS
// with the flags of its Makefile, and compares it with the manifests that the fork ships.
func TestBundle_SameAsManifestsGen(t *testing.T) {
	forks, err := fixture.Forks()
	if err != nil {
		t.Fatal(err)
	}
	if len(forks) == 0 {
		t.Skip("FORKS is not set to a folder of forks")
	}
	for _, fork := range forks {
		t.Run(fork.Folder, func(t *testing.T) {
			t.Parallel()
			bundle, _, err := generate.Bundle(forkOptions(fork))
			if err != nil {
				t.Fatal(err)
			}
			const metadata = "capi-operator-manifests/default/metadata.yaml"
			bundle.Profile = "default"
			files, err := bundle.ProfileFiles()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(fork.Shipped[metadata]), string(files[metadata])); diff != "" {
				t.Errorf("%s (-shipped +generated):\n%s", metadata, diff)
			}
			used := map[string]bool{}
			for _, difference := range differences(t, fork.Shipped["capi-operator-manifests/default/manifests.yaml"], bundle.Manifests) {
				if reason := accepted(difference, used); reason != "" {
					t.Logf("accepted: %s (%s)", difference, reason)
				} else {
					t.Error(difference)
				}
			}
		})
	}
}

func accepted(difference string, used map[string]bool) string {
	for _, d := range forkDifferences {
		if regexp.MustCompile(d.pattern).MatchString(difference) {
			used[d.pattern] = true
			return d.reason
		}
	}
	return ""
}

// forkOptions converts the flags of manifests-gen to options.
func forkOptions(fork fixture.Fork) generate.Options {
	return generate.Options{
		Dir: fork.Kustomization, ProviderName: fork.Name, ProviderType: fork.Type, ProviderVersion: fork.Version, OCPPlatform: fork.Platform,
		InstallOrder: fork.InstallOrder, Options: transform.Options{ImageName: fork.ImageName, ProtectClusters: fork.ProtectClusters},
	}
}

// differences compares two streams of manifests object by object: one line for each field.
func differences(t *testing.T, want, got []byte) (lines []string) {
	t.Helper()
	shipped, generated := byName(t, want), byName(t, got)
	for name := range shipped {
		if generated[name] == nil {
			lines = append(lines, name+" is not generated")
		}
	}
	for name, o := range generated {
		if shipped[name] == nil {
			lines = append(lines, name+" is not shipped")
			continue
		}
		for _, field := range fieldsThatDiffer(shipped[name].Object, o.Object, "") {
			lines = append(lines, name+" "+field)
		}
	}
	slices.Sort(lines)
	return lines
}

func byName(t *testing.T, manifests []byte) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := yamldoc.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		name := object.Describe(o)
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			name = o.GetKind() + " " + o.GetName() // without the namespace
		}
		all[name] = o
	}
	return all
}

func fieldsThatDiffer(want, got any, path string) (fields []string) {
	switch want := want.(type) {
	case map[string]any:
		other, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for key := range want {
			keys[key] = true
		}
		for key := range other {
			keys[key] = true
		}
		for key := range keys {
			fields = append(fields, fieldsThatDiffer(want[key], other[key], path+"."+key)...)
		}
		return fields
	case []any:
		other, ok := got.([]any)
		if !ok || len(other) != len(want) {
			break
		}
		for i := range want {
			fields = append(fields, fieldsThatDiffer(want[i], other[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return fields
	}
	if fmt.Sprint(want) == fmt.Sprint(got) {
		return nil
	}
	return []string{fmt.Sprintf("%s: shipped %.300v, generated %.300v", path, want, got)}
}
