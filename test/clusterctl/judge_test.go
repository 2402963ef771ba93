// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
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
			var errs []string
			_, findings := contract.CheckRelease(contract.Release{Dir: "infrastructure-example/v1.0.0", Files: map[string][]byte{
				"infrastructure-components.yaml": []byte(text), "metadata.yaml": []byte(metadata),
			}}, rules.All())
			for _, f := range findings {
				if f.Severity == contract.Error {
					errs = append(errs, f.Rule+": "+f.Message)
				}
			}
			if (verdict != nil) != (len(errs) > 0) {
				t.Errorf("clusterctl: %v; validate: %q", verdict, errs)
			}
		})
	}
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
