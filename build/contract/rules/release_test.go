// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/contract"
)

// where returns the position of a finding: "metadata.yaml:4 releaseSeries".
func where(findings contract.Findings, rule string) (found []string) {
	for _, f := range findings {
		if f.Rule == rule {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Field)))
		}
	}
	return found
}

const namespaceAndController = `apiVersion: v1
kind: Namespace
metadata: {name: example-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials}
---
apiVersion: v1
kind: Service
metadata: {name: webhook}
spec: {selector: {app: example}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: example-system}
spec:
  selector: {matchLabels: {app: example}}
  template:
    metadata: {labels: {app: example}}
    spec:
      serviceAccountName: manager
      containers:
      - name: manager
        image: quay.io/example/manager:v1.0.0
        args: [--namespace=openshift-cluster-api]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: example}
webhooks:
- {name: a.b.c, clientConfig: {caBundle: Cg==, service: {namespace: example-system, name: webhook}}}
- {name: d.e.f, clientConfig: {caBundle: Cg==, service: {namespace: openshift-cluster-api, name: webhook}}}
`

func TestCheckRelease_AppliesOnlyReleaseRules(t *testing.T) {
	_, findings := contract.CheckRelease(contract.Release{Files: map[string][]byte{"infrastructure-components.yaml": []byte(namespaceAndController)}}, All())
	want := map[string][]string{
		"clusterctl/target-namespace":  {"infrastructure-components.yaml:37 webhooks[1].clientConfig.service.namespace"},
		"clusterctl/namespace-flag":    {"infrastructure-components.yaml:30 spec.template.spec.containers[0].args[0]"},
		"contract/kind-present":        {"infrastructure-components.yaml:0", "infrastructure-components.yaml:0"},
		"metadata-yaml/present":        {"metadata.yaml:0"},
		"bundle/serviceaccount-exists": nil, "webhook/service-namespace": nil, "webhook/service-port": nil, "clusterctl/repository-directory": nil,
		"installer/no-secret": nil, "installer/no-namespace-object": nil, "installer/other-image-pinned": nil, "metadata/image-name-occurs": nil,
	}
	for rule, places := range want {
		if diff := cmp.Diff(places, where(findings, rule)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

func TestRulesOf(t *testing.T) {
	for _, form := range []contract.Form{contract.FormBundle, contract.FormRelease} {
		for _, rule := range contract.RulesOf(form, All()) {
			if rule.Only != "" && rule.Only != form {
				t.Errorf("RulesOf returns %s, which is not about a %s", rule.ID, form)
			}
		}
	}
	for theme, only := range map[string]contract.Form{"metadata/": contract.FormBundle, "metadata-yaml/": contract.FormRelease} {
		for _, rule := range All() {
			if strings.HasPrefix(rule.ID, theme) && rule.Only != only {
				t.Errorf("RulesOf does not return %s, which is about %s", rule.ID, rule.About())
			}
		}
	}
}

func TestRelease_Components(t *testing.T) {
	for want, files := range map[string][]string{
		"bootstrap-components.yaml core-components.yaml": {"core-components.yaml", "bootstrap-components.yaml", "cluster-api-components.yaml", "metadata.yaml"},
		"cluster-api-components.yaml":                    {"cluster-api-components.yaml", "cluster-template.yaml", "other.yaml"},
		"install.yaml":                                   {"install.yaml", "metadata.yaml", "cluster-template-dev.yaml", "clusterclass-dev.yaml", "README.md"},
		"":                                               {"metadata.yaml", "README.md"},
	} {
		release := contract.Release{Files: map[string][]byte{}}
		for _, file := range files {
			release.Files[file] = nil
		}
		if got := strings.Join(release.Components(), " "); got != want {
			t.Errorf("components of %v: %q, want %q", files, got, want)
		}
	}
}

func TestCheckRelease_SharedMetadata(t *testing.T) {
	_, findings := contract.CheckRelease(contract.Release{Files: map[string][]byte{
		"core-components.yaml": nil, "bootstrap-components.yaml": nil,
		"metadata.yaml": []byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nreleaseSeries:\n- {minor: 4, contract: v1alpha4}\n- {major: 1, contract: v1alpha3}\n"),
	}}, All())
	for rule, want := range map[string][]string{
		"metadata-yaml/kind": {"metadata.yaml:1 kind"},
		// The version is unknown, so the newest series is checked. A missing number is zero.
		"metadata-yaml/contract-compatible": {"metadata.yaml:4 releaseSeries[1].contract"},
		"metadata-yaml/series-for-version":  nil, "metadata-yaml/release-series": nil,
	} {
		if diff := cmp.Diff(want, where(findings, rule)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

// TestCheckRelease_ContractOfLabels: the contract of metadata.yaml equals the contract in the labels of the CRDs, also if
// Cluster API no longer supports it, as package clusterctl writes it.
func TestCheckRelease_ContractOfLabels(t *testing.T) {
	const rule = "metadata-yaml/contract-matches-labels"
	for label, want := range map[string][]string{
		"v1beta1": nil, "v1beta2": {"metadata.yaml:4 releaseSeries[0].contract"}, "v1alpha4": {"metadata.yaml:4 releaseSeries[0].contract"},
	} {
		_, findings := contract.CheckRelease(contract.Release{Dir: "infrastructure-example/v1.2.3", Files: map[string][]byte{
			"infrastructure-components.yaml": []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x, labels: {<<: {cluster.x-k8s.io/" + label + ": v1}}}\n"),
			"metadata.yaml":                  []byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 1, minor: 2, contract: v1beta1}\n"),
		}}, All())
		if diff := cmp.Diff(want, where(findings, rule)); diff != "" {
			t.Errorf("%s with labels for %s (-want +got):\n%s", rule, label, diff)
		}
	}
}

func TestCheckRelease_SeveralProvidersInOneDirectory(t *testing.T) {
	const kubeadm = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {cluster.x-k8s.io/provider: bootstrap-kubeadm}}\n"
	for _, scenario := range []struct {
		dir, provider string
		want          []string
	}{
		{"cluster-api/v1.14.2", "cluster-api", nil},
		{"bootstrap-kubeadm/v1.14.2", "cluster-api-provider-kubeadm", nil},
		{"addon-helm/v1.14.2", "cluster-api-provider-kubeadm", []string{".:0", ".:0"}},
	} {
		provider, findings := contract.CheckRelease(contract.Release{Dir: scenario.dir, Files: map[string][]byte{"bootstrap-components.yaml": []byte(kubeadm), "core-components.yaml": nil}}, All())
		if provider.ProviderName != scenario.provider {
			t.Errorf("%s is of %s", scenario.dir, provider.ProviderName)
		}
		if diff := cmp.Diff(scenario.want, where(findings, "clusterctl/repository-directory")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scenario.dir, diff)
		}
		if found := where(findings, "clusterctl/provider-label-matches-name"); found != nil {
			t.Errorf("%s: %v", scenario.dir, found)
		}
	}
}

func TestCheckReleaseForm_UnreadableMetadata(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "- a\n", "text\n", "a: [\n", "a: &a {b: *a}\n"} {
		var rules []string
		for _, f := range contract.CheckReleaseForm(contract.Release{Files: map[string][]byte{"metadata.yaml": []byte(text), "ipam-components.yaml": nil}}, All()) {
			rules = append(rules, f.Rule)
		}
		if !slices.Equal(rules, []string{"metadata-yaml/readable"}) {
			t.Errorf("%q: %v", text, rules)
		}
	}
}

func FuzzCheckRelease(f *testing.F) {
	for _, rule := range All() {
		if rule.Only != contract.FormRelease {
			continue
		}
		example, err := rule.Example()
		if err != nil {
			f.Fatal(err)
		}
		for _, text := range []string{example.Good, example.Bad} {
			release, _ := releaseOf(text)
			f.Add(release.Files["infrastructure-components.yaml"], release.Files["metadata.yaml"], release.Files["cluster-template.yaml"])
		}
	}
	f.Fuzz(func(t *testing.T, components, metadata, template []byte) {
		release := contract.Release{Dir: "infrastructure-example/v1.0.0", Files: map[string][]byte{
			"infrastructure-components.yaml": components, "metadata.yaml": metadata, "cluster-template.yaml": template, "clusterclass-x.yaml": template,
		}}
		for _, finding := range contract.CheckReleaseForm(release, All()) {
			if _, exists := release.Files[finding.File]; !exists || finding.Line < 0 || finding.Message == "" {
				t.Errorf("%+v", finding)
			}
		}
	})
}

// TestCheckRelease_AsClusterctl: clusterctl's validateProvider refuses these names, and it reads ClusterClasses from their own files only.
func TestCheckRelease_AsClusterctl(t *testing.T) {
	const cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec: {topology: {classRef: {name: quick}, version: v1.34.0}}\n"
	const class = "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: quick}\n"
	for _, test := range []struct {
		dir, rule string
		files     map[string][]byte
		want      bool
	}{
		{"infrastructure-foo/v1.0.0", "clusterctl/repository-directory", nil, false},
		{"infrastructure-Foo/v1.0.0", "clusterctl/repository-directory", nil, true},
		{"infrastructure-foo_bar/v1.0.0", "clusterctl/repository-directory", nil, true},
		{"infrastructure--foo/v1.0.0", "clusterctl/repository-directory", nil, true},
		{"infrastructure-foo/v1.0.0", "clusterctl/template-references", map[string][]byte{"cluster-template.yaml": []byte(cluster + class)}, true},
		{"infrastructure-foo/v1.0.0", "clusterctl/template-references", map[string][]byte{"cluster-template.yaml": []byte(cluster), "clusterclass-quick.yaml": []byte(class)}, false},
		{"infrastructure-foo/v1.0.0", "clusterctl/deployment-present", map[string][]byte{"infrastructure-components.yaml": []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}, true},
	} {
		_, findings := contract.CheckRelease(contract.Release{Dir: test.dir, Files: test.files}, All())
		found := slices.ContainsFunc(findings, func(f contract.Finding) bool { return f.Rule == test.rule && f.Severity == contract.Error })
		if found != test.want {
			t.Errorf("%s with %d files: an error of %s is %v, want %v", test.dir, len(test.files), test.rule, found, test.want)
		}
	}
}
