// SPDX-License-Identifier: Apache-2.0

package diff_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// generated holds the bundles of the real providers, generated once.
var generated struct {
	once      sync.Once
	providers []diff.Provider
}

// real returns the real providers. Callers must not modify them.
func real(t testing.TB) []diff.Provider {
	t.Helper()
	generated.once.Do(func() { generated.providers = generateAll(t) })
	if generated.providers == nil {
		t.Fatal("generating the bundles of real providers failed")
	}
	return generated.providers
}

func generateAll(t testing.TB) (providers []diff.Provider) {
	t.Helper()
	sources, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sources {
		generated, _, err := generate.Bundle(generate.Options{Dir: p.Kustomization, ProviderName: p.Name, ProviderType: p.Type, ProviderVersion: p.Version, OCPPlatform: p.Platform, Options: transform.Options{ImageName: p.ImageName}})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := bundle.Objects(generated)
		if err != nil {
			t.Fatal(err)
		}
		providers = append(providers, diff.Provider{Name: p.Name, Type: string(p.Type), Version: p.Version, Objects: objects})
	}
	return providers
}

func copied(providers []diff.Provider) []diff.Provider {
	all := slices.Clone(providers)
	for i := range all {
		all[i].Objects = slices.Clone(all[i].Objects)
		for j := range all[i].Objects {
			all[i].Objects[j] = all[i].Objects[j].DeepCopy()
		}
	}
	return all
}

// place is a property of a schema with properties of its own, in a CRD of a provider.
type place struct {
	provider, object int
	version          int
	path             []string
}

// places returns all places in the CRDs; they are valid in a copy too.
func places(providers []diff.Provider) (found []place) {
	for i, p := range providers {
		for j, o := range p.Objects {
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			for k := range versions {
				if o.GetKind() == "CustomResourceDefinition" {
					at := place{i, j, k, nil}
					walk(at.schema(providers), nil, func(path []string) { found = append(found, place{i, j, k, path}) })
				}
			}
		}
	}
	return found
}

func walk(schema map[string]any, path []string, found func([]string)) {
	properties := object.MapAt(schema, "properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		at := append(slices.Clone(path), name)
		if property["type"] == "object" && property["properties"] != nil {
			found(at)
			walk(property, at, found)
		}
	}
}

// schema returns the schema at the place.
func (p place) schema(providers []diff.Provider) map[string]any {
	at := object.MapAt(object.MapsAt(providers[p.provider].Objects[p.object].Object, "spec", "versions")[p.version], "schema", "openAPIV3Schema")
	for _, name := range p.path {
		at = object.MapAt(at, "properties", name)
	}
	return at
}

// TestCompare_BreakingChangesInRealCRDs breaks the schemas of real CRDs at random places.
func TestCompare_BreakingChangesInRealCRDs(t *testing.T) {
	before := real(t)
	all := places(before)
	if len(all) < 100 {
		t.Fatalf("only %d objects with fields in the CRDs of real providers", len(all))
	}
	breaks := map[string]func(parent map[string]any, name string){
		"crd/field-removed": func(parent map[string]any, name string) { delete(parent["properties"].(map[string]any), name) },
		"crd/type": func(parent map[string]any, name string) {
			property := parent["properties"].(map[string]any)[name].(map[string]any)
			property["type"] = "other-" + object.TextAt(property, "type")
		},
		"crd/enum": func(parent map[string]any, name string) {
			parent["properties"].(map[string]any)[name].(map[string]any)["enum"] = []any{"only"}
		},
		"crd/required": func(parent map[string]any, name string) {
			required, _ := parent["required"].([]any)
			parent["required"] = append(required, name)
			property := parent["properties"].(map[string]any)[name].(map[string]any)
			delete(property, "default")
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SampledFrom(all).Draw(t, "place")
		properties := at.schema(before)["properties"].(map[string]any)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(properties))).Draw(t, "property")
		rule := rapid.SampledFrom([]string{"crd/field-removed", "crd/type", "crd/enum", "crd/required"}).Draw(t, "rule")
		property := properties[name].(map[string]any)
		if required, _ := at.schema(before)["required"].([]any); rule == "crd/required" && slices.Contains(required, any(name)) || rule == "crd/enum" && len(property) > 0 && property["enum"] != nil && len(property["enum"].([]any)) == 0 {
			t.Skip("no change")
		}
		one := before[at.provider]
		one.Objects = one.Objects[at.object : at.object+1]
		after := copied([]diff.Provider{one})
		at.provider, at.object = 0, 0
		breaks[rule](at.schema(after), name)
		path := strings.Join(at.path, ".")
		if rule != "crd/required" {
			path += "." + name
		}
		if report := diff.Compare([]diff.Provider{one}, after); report.Verdict.Worst() != diff.Breaking || !has(report, rule, path) {
			t.Errorf("%s of %s in %s not found: %+v", rule, path, one.Objects[0].GetName(), report.Verdict)
		}
	})
}

func has(r diff.Report, rule, path string) bool {
	for _, p := range r.Providers {
		for _, c := range p.Changes {
			if c.Rule == rule && c.Path == path && c.Level == diff.Breaking {
				return true
			}
		}
	}
	return false
}

func TestCompare_RealProviderWithItself(t *testing.T) {
	providers := real(t)
	if report := diff.Compare(providers, copied(providers)); report.Verdict.Worst() != diff.None {
		t.Errorf("%+v", report.Verdict)
	}
}

func TestCompare_NewImageIsNoise(t *testing.T) {
	before := real(t)
	after := copied(before)
	images := 0
	for _, p := range after {
		for _, o := range p.Objects {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			for _, container := range containers {
				c := container.(map[string]any)
				c["image"] = object.TextAt(c, "image") + "-next"
				images++
			}
			if len(containers) > 0 {
				if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
					t.Fatal(err)
				}
			}
			labels := o.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels["app.kubernetes.io/version"] = "next"
			o.SetLabels(labels)
		}
	}
	report := diff.Compare(before, after)
	if images < 4 || report.Verdict.Worst() != diff.Noise {
		t.Errorf("%d images: %+v", images, report.Verdict)
	}
}

// BenchmarkCompare compares all real providers with changed descriptions in all CRDs.
func BenchmarkCompare(b *testing.B) {
	before := real(b)
	after := copied(before)
	for _, at := range places(after) {
		at.schema(after)["description"] = "other"
	}
	for b.Loop() {
		diff.Compare(before, after)
	}
}
