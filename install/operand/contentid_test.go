// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
)

// inputs returns two bundles, one from an image and one from ConfigMaps.
func inputs() []extractor.Bundle {
	return []extractor.Bundle{
		{
			Origin:    extractor.Origin{Name: "cluster-capi-controllers", Image: testImage},
			Metadata:  extractor.Metadata{ProviderName: "cluster-api", ProviderType: extractor.Core, ProviderVersion: "v1.10.2", ContentID: digest.FromString("core")},
			Manifests: []byte("a: ${A}\nb: ${B:=c}\n"),
		},
		{
			Origin:   extractor.Origin{Name: "aws", ConfigMaps: []string{"a-00", "a-01"}},
			Metadata: extractor.Metadata{ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ContentID: digest.FromString("aws")},
		},
	}
}

func ExampleContentID() {
	bundles := []extractor.Bundle{{
		Origin: extractor.Origin{
			Name:  "cluster-capi-controllers",
			Image: "quay.io/ocp/capi@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		},
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api", ProviderType: extractor.Core,
			ContentID: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
		},
		Manifests: []byte("value: ${EXP_MACHINE_POOL:=false}"),
	}}
	fmt.Println(ContentID(Inputs{Bundles: bundles, Variables: map[string]string{"EXP_MACHINE_POOL": "true"}}))
	// Output: sha256:95fbda522a46c88447249ac52326298b2861a67491fc99c222c3307a77a79179
}

// A change of this value would roll out a new revision in every cluster.
func TestContentID_NeverChanges(t *testing.T) {
	const want = "sha256:e86fe21882a9d828b57bc34b1d108660d81f591448a31f4302adf3053cff6482"
	if got := ContentID(Inputs{Bundles: inputs(), Variables: map[string]string{"B": "2", "A": "1"}}); got != want {
		t.Errorf("content ID is %s, want %s", got, want)
	}
}

func TestContentID_ChangesWithEachInput(t *testing.T) {
	changes := map[string]func(*Inputs){
		"name":           func(i *Inputs) { i.Bundles[0].Metadata.ProviderName = "other" },
		"type":           func(i *Inputs) { i.Bundles[0].Metadata.ProviderType = extractor.IPAM },
		"manifests":      func(i *Inputs) { i.Bundles[0].Metadata.ContentID = digest.FromString("other") },
		"image":          func(i *Inputs) { i.Bundles[0].Origin.Image += "0" },
		"ConfigMaps":     func(i *Inputs) { i.Bundles[1].Origin.ConfigMaps = []string{"a-00a-01"} },
		"order":          func(i *Inputs) { i.Bundles[0], i.Bundles[1] = i.Bundles[1], i.Bundles[0] },
		"variable":       func(i *Inputs) { i.Variables["A"] = "2" },
		"empty variable": func(i *Inputs) { i.Variables["B"] = "" },
		"setting": func(i *Inputs) {
			i.Settings.Components = []v1alpha1.ComponentSettings{{Name: "cluster-api", FeatureGates: []v1alpha1.FeatureGate{{Name: "MachinePool"}}}}
		},
		"placement": func(i *Inputs) {
			i.Settings.Placement = &v1alpha1.Placement{NodeSelector: map[string]string{"infra": ""}}
		},
		"nothing": func(*Inputs) {},
	}
	seen := map[digest.Digest]string{}
	for name, change := range changes {
		changed := Inputs{Bundles: inputs(), Variables: map[string]string{"A": "1"}}
		change(&changed)
		id := ContentID(changed)
		if other, found := seen[id]; found {
			t.Errorf("content IDs of %q and %q are equal", name, other)
		}
		seen[id] = name
	}
}

func TestContentID_IgnoresEverythingElse(t *testing.T) {
	bundles := inputs()
	bundles[0].Origin.Name, bundles[0].Metadata.ProviderVersion, bundles[0].Profile = "other", "v2", "other"
	if ContentID(Inputs{Bundles: bundles}) != ContentID(Inputs{Bundles: inputs(), Variables: map[string]string{}}) {
		t.Error("the content ID depends on the name in images.json, the version or the profile")
	}
}

func TestSet_Components(t *testing.T) {
	set := Set{}
	bundles := inputs()
	bundles[0].Origin.Overridden = true
	for _, bundle := range bundles {
		set.Operands = append(set.Operands, operandOf(bundle, nil))
	}
	want := []v1alpha1.Component{
		{Name: "cluster-api", Type: "core", Version: "v1.10.2", ContentID: v1alpha1.Digest(digest.FromString("core")), Source: "cluster-capi-controllers", Overridden: true, Image: testImage},
		{Name: "cluster-api-provider-aws", Type: "infrastructure", ContentID: v1alpha1.Digest(digest.FromString("aws")), Source: "aws", ConfigMaps: []string{"a-00", "a-01"}},
	}
	if diff := cmp.Diff(want, set.Components()); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
}

func TestUsedVariables(t *testing.T) {
	bundles := inputs()
	bundles[1].Manifests = []byte("nested: ${C:=${D:-${E}}} escaped: $${F} other: $(G) unclosed: ${H\nliteral: I\n")
	values := map[string]string{}
	for _, name := range []string{"A", "B", "C", "D", "E", "F", "G", "H", "I", "HTTP_PROXY"} {
		values[name] = name
	}
	want := map[string]string{"A": "A", "B": "B", "C": "C", "D": "D", "E": "E"}
	if diff := cmp.Diff(want, usedVariables(bundles, values)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if ContentID(Inputs{Bundles: bundles, Variables: values}) != ContentID(Inputs{Bundles: bundles, Variables: want}) {
		t.Error("the content ID depends on variables that no manifest uses")
	}
}
