// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
	"github.com/capi-installer/capi-installer/test/mutation"
)

const components = `apiVersion: v1
kind: Namespace
metadata: {name: example-system, labels: {cluster.x-k8s.io/provider: infrastructure-example}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: example-system, labels: {cluster.x-k8s.io/provider: infrastructure-example}}
spec:
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      serviceAccountName: manager
      initContainers: [{name: init, image: registry.example.com/init:v1.0.0}]
      containers: [{name: manager, image: registry.example.com/example:v1.0.0}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: example-system, labels: {cluster.x-k8s.io/provider: infrastructure-example}}
`

const seriesOfExample = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 1, minor: 0, contract: v1beta2}\n"

// TestClusterctl_JudgesReleases: clusterctl rejects a release if and only if a rule about it has an error.
func TestClusterctl_JudgesReleases(t *testing.T) {
	const manager, init = "registry.example.com/example:v1.0.0", "registry.example.com/init:v1.0.0"
	for name, test := range map[string]struct{ old, new, metadata string }{
		"AsItIs":               {},
		"ImageWithoutRegistry": {old: manager, new: "example/example:v1.0.0"},
		"ImageByVariable":      {old: manager, new: "${IMAGE:=nginx}"},
		"ImageNotCanonical":    {old: manager, new: "docker.io/nginx"},
		"ImageCanonical":       {old: manager, new: "docker.io/library/nginx"},
		"ImageByDigest":        {old: manager, new: "registry.example.com/a@sha256:" + strings.Repeat("a", 64)},
		"ImageWithPort":        {old: manager, new: "localhost:5000/a/b:v1"},
		"ImageInvalid":         {old: manager, new: "registry.example.com/UPPER:v1"},
		"InitImage":            {old: init, new: "busybox"},
		"EqualVariables":       {old: manager, new: manager + ", env: [{name: A}, {name: A}]"},
		"UnknownVersion":       {old: "apps/v1", new: "apps/v2"},
		"SpacesInVariable":     {old: "labels: {app: manager}", new: "labels: {app: manager, feature: \"${ FEATURE }\"}"},
		"InvalidVariable":      {old: "labels: {app: manager}", new: "labels: {app: manager, feature: \"${FEATURE\"}"},
		"TwoNamespaces":        {old: "kind: ServiceAccount", new: "kind: Namespace"},
		"OtherNamespace":       {old: "kind: ServiceAccount\nmetadata: {name: manager, namespace: example-system", new: "kind: ServiceAccount\nmetadata: {name: manager, namespace: other"},
		"DuplicateKey":         {old: "kind: ServiceAccount", new: "kind: Namespace\nkind: ServiceAccount"},
		"InvalidYAML":          {old: "kind: ServiceAccount", new: "kind: ["},
		"MetadataVersion":      {metadata: strings.Replace(seriesOfExample, "v1alpha3", "v1", 1)},
		"MetadataKind":         {metadata: strings.Replace(seriesOfExample, "kind: Metadata", "kind: Meta", 1)},
		"MetadataWithoutKind":  {metadata: strings.Replace(seriesOfExample, "kind: Metadata\n", "", 1)},
		"MetadataEmptySeries":  {metadata: strings.Split(seriesOfExample, "releaseSeries")[0] + "releaseSeries: []\n"},
		"MetadataBroken":       {metadata: "releaseSeries: [\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text, metadata := strings.Replace(components, test.old, test.new, 1), test.metadata
			if test.old == "" {
				text = components
			}
			if metadata == "" {
				metadata = seriesOfExample
			}
			verdict := verdictOfClusterctl(t, text, metadata)
			errs := errorsOf(map[string][]byte{"infrastructure-components.yaml": []byte(text), "metadata.yaml": []byte(metadata)}, "")
			if (verdict != nil) != (len(errs) > 0) {
				t.Errorf("clusterctl: %v; validate: %q", verdict, errs)
			}
		})
	}
}

// later are the rules with errors about releases that clusterctl installs, by the reason why these do not work.
var later = map[string][]string{
	"the API server rejects an object": {"bundle/object-valid", "bundle/list-key-unique", "bundle/typemeta", "crd/valid", "crd/name-calculate"},
	"Cluster API does not find the kind, its version or a field": {
		"contract/field-present", "contract/field-types", "contract/label-chosen-served", "contract/label-format", "contract/label-present", "contract/scope",
		"contract/template", "control-plane/status-version", "template/named-after-resource", "template/same-contract", "template/spec-template-spec",
	},
	"the API server cannot call a webhook, or the webhook cannot decode its objects": {
		"webhook/ca-injection", "webhook/cert-mounted", "webhook/path-kind", "webhook/service-exists", "webhook/service-port", "webhook/service-selects-pods",
	},
	"the pods of the provider do not become ready, or their requests fail": {
		"bundle/serviceaccount-exists", "crd/list-kind", "crd/served-version-exists", "crd/status-subresource", "rbac/leader-election", "rbac/own-types",
		"rbac/read-clusters", "startup/port-names",
	},
	"clusterctl init rejects the name of a CRD, in a check that reads the management cluster": {"clusterctl/crd-name-preflight"},
	"the contract demands a Deployment": {"clusterctl/deployment-present"},
}

// TestClusterctl_JudgesMutations: clusterctl rejects components with a mistake only if there is a new error, and each error about components that it
// accepts has a reason in later; the tests with an API server judge the first of them. Without E2E=full, one mistake of each rule is judged.
func TestClusterctl_JudgesMutations(t *testing.T) {
	mutations, err := mutation.Read("../../build/contract/rules/testdata/mutations.json")
	must(t, err)
	folder := t.TempDir()
	providers, err := fixture.Providers(t.Context(), folder)
	must(t, err)
	docker, err := fixture.DockerProvider(t.Context(), folder)
	must(t, err)
	docker.Name = "infrastructure-docker" // as the mutations call it
	reasons := slices.Concat(slices.Collect(maps.Values(later))...)
	judged, accepted, isFull := map[string]bool{}, map[string]bool{}, os.Getenv("E2E") == "full"
	for _, provider := range append(providers, docker) {
		bundle, err := bundles.Of(provider, transform.Options{ImageName: provider.ImageName})
		must(t, err)
		manifests, err := mutation.WithoutDeepFields(bundle.Manifests)
		must(t, err)
		release := func(manifests []byte) map[string][]byte {
			namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: openshift-cluster-api}\n---\n"
			return map[string][]byte{"infrastructure-components.yaml": append([]byte(namespace), manifests...), "metadata.yaml": []byte(seriesOfExample)}
		}
		before := errorsOf(release(manifests), "")
		for _, m := range mutations {
			if m.Provider != provider.Name || m.File != "" || m.Object == "" || judged[m.Rule] && !isFull {
				continue
			}
			judged[m.Rule] = true
			mutated, _, err := m.Apply(manifests)
			must(t, err)
			files := release(mutated)
			found := newErrors(before, errorsOf(files, ""))
			verdict := verdictOfClusterctl(t, string(files["infrastructure-components.yaml"]), seriesOfExample)
			if verdict != nil && len(found) == 0 {
				t.Errorf("%s: clusterctl: %v; validate has no error", m, verdict)
			}
			for _, text := range found {
				rule, _, _ := strings.Cut(text, " ")
				accepted[rule] = accepted[rule] || verdict == nil
				if verdict == nil && !slices.Contains(reasons, rule) {
					t.Errorf("%s: clusterctl accepts the components, and nothing is known to reject them later: %s", m, text)
				}
			}
		}
	}
	for _, rule := range reasons {
		if isFull && !accepted[rule] {
			t.Errorf("no mistake that clusterctl accepts has an error of the rule %s", rule)
		}
	}
	t.Logf("%d rules judged, %d of them about mistakes that clusterctl accepts", len(judged), len(accepted))
}

// verdictOfClusterctl returns the error of clusterctl for a release in a local repository.
func verdictOfClusterctl(t *testing.T, text, metadata string) error {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "infrastructure-example", "v1.0.0")
	must(t, os.MkdirAll(dir, 0o700))
	for name, content := range map[string]string{"infrastructure-components.yaml": text, "metadata.yaml": metadata} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	reader := config.NewMemoryReader()
	must(t, reader.Init(t.Context(), ""))
	reader.Set("FEATURE", "true")
	if _, err := reader.AddProvider("example", v1alpha3.InfrastructureProviderType, "file://"+filepath.Join(dir, "infrastructure-components.yaml")); err != nil {
		t.Fatal(err)
	}
	configured, err := config.New(t.Context(), "", config.InjectReader(reader))
	must(t, err)
	provider, err := configured.Providers().Get("example", v1alpha3.InfrastructureProviderType)
	must(t, err)
	client, err := repository.New(t.Context(), provider, configured)
	if err != nil {
		return err
	}
	if _, err := client.Metadata("v1.0.0").Get(t.Context()); err != nil {
		return err
	}
	_, err = client.Components().Get(t.Context(), repository.ComponentsOptions{Version: "v1.0.0"})
	return err
}
