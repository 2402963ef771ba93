// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestRender renders the bundles of each archive in testdata/render. In an
// archive, "variables" has a line NAME=value for each variable; "NAME.bundle" is
// the origin of bundle NAME as YAML, and "NAME.yaml" its manifests file; "settings" is a spec of the ClusterAPI object. "want.yaml" has
// the objects, or "want.error" the error.
func TestRender(t *testing.T) {
	goesIn := scenario.AllBut("want.yaml", "want.error")
	scenario.Run(t, "testdata/render/*.txtar", goesIn, func(t *testing.T, archive *scenario.Archive) []scenario.File {
		set, err := Render(inputsOf(t, archive))
		if err != nil {
			checkTyped(t, err)
			return []scenario.File{{Name: "want.error", Data: []byte(err.Error() + "\n")}}
		}
		return []scenario.File{{Name: "want.yaml", Data: objectsOf(t, set)}}
	})
}

func checkTyped(t *testing.T, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got a %T, want joined errors", err)
	}
	for _, err := range joined.Unwrap() {
		finding, isRender := errors.AsType[*RenderError](err)
		if isRender && finding.Source == "" || !isRender && !errors.As(err, new(*SettingError)) {
			t.Errorf("%v: got a %T, want a *RenderError with a position, or a *SettingError", err, err)
		}
	}
}

// inputsOf reads the bundles, the variables and the settings of an archive.
func inputsOf(t *testing.T, archive *scenario.Archive) Inputs {
	t.Helper()
	variables := map[string]string{}
	var bundles []extractor.Bundle
	var settings v1alpha1.ClusterAPISpec
	for _, file := range archive.Files {
		name, isBundle := strings.CutSuffix(file.Name, ".bundle")
		switch {
		case file.Name == "variables":
			for line := range strings.Lines(string(file.Data)) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				variables[key] = value
			}
		case file.Name == "settings":
			if err := yaml.UnmarshalStrict(file.Data, &settings); err != nil {
				t.Fatal(err)
			}
		case isBundle:
			bundle := bundleOf(t, file.Data)
			bundle.Metadata.ProviderName = name
			bundles = append(bundles, bundle)
		case len(bundles) > 0 && file.Name == bundles[len(bundles)-1].Metadata.ProviderName+".yaml":
			bundles[len(bundles)-1].Manifests = file.Data
			bundles[len(bundles)-1].Metadata.ContentID = digest.FromBytes(file.Data)
		}
	}
	return Inputs{Bundles: bundles, Variables: variables, Settings: setting.Of(settings)}
}

func bundleOf(t *testing.T, data []byte) extractor.Bundle {
	t.Helper()
	var fields struct {
		From       string   `json:"from"`
		Image      string   `json:"image"`
		ConfigMaps []string `json:"configMaps"`
		Profile    string   `json:"profile"`
		ImageName  string   `json:"imageName"`
	}
	if err := yaml.UnmarshalStrict(data, &fields); err != nil {
		t.Fatal(err)
	}
	return extractor.Bundle{
		Origin:   extractor.Origin{Name: fields.From, Image: fields.Image, ConfigMaps: fields.ConfigMaps},
		Metadata: extractor.Metadata{ProviderType: extractor.Core, ProviderVersion: "v1.0.0", ImageName: fields.ImageName},
		Profile:  fields.Profile,
	}
}

// objectsOf encodes the objects of a set, each after a line that names its
// provider.
func objectsOf(t *testing.T, set Set) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, operand := range set.Operands {
		for _, obj := range operand.Objects {
			encoded, err := yaml.Marshal(obj.Object)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("--- # " + operand.Name + "\n")
			out.Write(encoded)
		}
	}
	return out.Bytes()
}

func TestRender_SetHasItsInputs(t *testing.T) {
	origin := extractor.Origin{Name: "aws", Image: testImage}
	bundle := extractor.Bundle{
		Origin: origin,
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure,
			ProviderVersion: "v2.10.0", ContentID: digest.FromString("x"),
		},
		Manifests: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: a${A}}\n"),
	}
	variables := map[string]string{"A": "b"}
	set, err := Render(Inputs{Bundles: []extractor.Bundle{bundle}, Variables: variables})
	if err != nil {
		t.Fatal(err)
	}
	if want := ContentID(Inputs{Bundles: []extractor.Bundle{bundle}, Variables: variables}); set.ContentID != want {
		t.Errorf("content ID is %s, want %s", set.ContentID, want)
	}
	if !maps.Equal(set.Variables, variables) {
		t.Errorf("variables are %v, want %v", set.Variables, variables)
	}
	got := set.Operands[0]
	got.Objects = nil
	want := Operand{Name: "cluster-api-provider-aws", Type: extractor.Infrastructure, Version: "v2.10.0", ContentID: digest.FromString("x"), Origin: origin}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operand (-want +got):\n%s", diff)
	}
}

func TestRender_KeepsTheBundle(t *testing.T) {
	manifests := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: {k: '${V:=w}'}\n"
	bundle := extractor.Bundle{Origin: extractor.Origin{Image: testImage}, Manifests: []byte(manifests)}
	if _, err := Render(Inputs{Bundles: []extractor.Bundle{bundle}, Variables: map[string]string{"V": "a longer value than there was"}}); err != nil {
		t.Fatal(err)
	}
	if string(bundle.Manifests) != manifests {
		t.Errorf("Render changed the manifests to %q", bundle.Manifests)
	}
}
