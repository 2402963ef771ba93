// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// coreCRD is a CRD whose label has the contract of the core provider.
const coreCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io, labels: {cluster.x-k8s.io/v1beta2: v1beta2}}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: Cluster, plural: clusters, singular: cluster, listKind: ClusterList}
  versions: [{name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// edited returns the bundle of a provider with other manifests.
func edited(provider fixture.Synthetic, replacements ...string) extractor.Bundle {
	out := provider.Bundle()
	out.Manifests = []byte(strings.NewReplacer(replacements...).Replace(string(out.Manifests)))
	out.Metadata.ContentID = digest.FromBytes(out.Manifests)
	return out
}

// TestPreflight_NamesEachCauseAtOnce upgrades to a release that clusterctl rejects for two reasons, with an immutable field and an object of another
// owner in different phases. The program and "capi-manifests plan" name all of them before the first write, and the commands in the message complete the release.
func TestPreflight_NamesEachCauseAtOnce(t *testing.T) {
	h := newHarness(t)
	h.releaseBundles(core("v1.10.0", coreCRD).Bundle(), aws("v1.0.0").Bundle())
	h.start("4.22.0")
	h.settled("4.22.0-1")
	theirs := &corev1.ConfigMap{}
	theirs.Namespace, theirs.Name = namespace, "theirs"
	h.must(h.Create(t.Context(), theirs))
	before := h.identities()

	h.releaseBundles(core("v1.14.0", coreCRD, configMap("theirs")).Bundle(), edited(aws("v2.0.0"),
		"cluster.x-k8s.io/v1beta2: v1beta2", "cluster.x-k8s.io/v1alpha4: v1beta2", "      cluster.x-k8s.io/provider: cluster-api-provider-aws\n", "      cluster.x-k8s.io/provider: renamed\n"))
	causes := []string{
		"the upgrade from v1.10.0 to v1.14.0 skips more than 3 minor versions", "implements contract v1alpha4, which the core provider with contract v1beta2 does not support",
		"ConfigMap " + namespace + "/theirs", "kubectl delete deployment.apps cluster-api-provider-aws-controller-manager -n " + namespace,
	}
	h.eventually("the condition names each cause", func() error { return containsAll(h.conditions(), causes) })
	var stdout, stderr strings.Builder
	command.Run(t.Context(), "", []string{"plan", "--images-json", h.ImagesJSON, "--platform", "AWS", "--release-version", "4.22.0", "--against", h.Cluster.Kubeconfig}, strings.NewReader(""), &stdout, &stderr)
	if err := containsAll(stdout.String(), causes); err != nil {
		t.Errorf("plan: %v\n%s", err, &stderr)
	}
	if after := h.identities(); !maps.Equal(before, after) {
		t.Errorf("objects were written: before %v, after %v", before, after)
	}

	_, err := h.Cluster.Kubectl(t.Context(), "delete", "deployment.apps", "cluster-api-provider-aws-controller-manager", "-n", namespace)
	h.must(err)
	h.must(h.Delete(t.Context(), theirs))
	current, err := h.clusterAPI()
	h.must(err)
	accepted := `{"spec": {"acceptedRisks": [{"name": "SkippedVersions", "release": "4.22.0"}, {"name": "UnsupportedContract", "release": "4.22.0"}]}}`
	h.must(h.Patch(t.Context(), current, client.RawPatch(types.MergePatchType, []byte(accepted))))
	h.settled("4.22.0-2")
}

// containsAll returns an error unless a text contains all parts.
func containsAll(text string, parts []string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%q not found in %s", part, text)
		}
	}
	return nil
}
