// SPDX-License-Identifier: Apache-2.0

package setting_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// Every example of docs/settings.md changes the objects of the real providers.
func TestPage_ExamplesApplyToRealProviders(t *testing.T) {
	page, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := bundles.Four(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Metadata.ClusterProfile = extractor.Kubernetes
		all[i].Origin.Image = "registry.example.com/provider@sha256:" + strings.Repeat("0", 64)
	}
	examples := strings.Split(string(page), "```yaml\n")[1:]
	if len(examples) != 13 {
		t.Errorf("%d examples, want thirteen", len(examples))
	}
	for _, example := range examples {
		text, _, _ := strings.Cut(example, "```")
		var spec v1alpha1.ClusterAPISpec
		if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		settings := setting.Of(spec)
		set, err := operand.Render(operand.Inputs{Bundles: all, Settings: settings})
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		applied := 0
		for _, component := range set.Operands {
			applied += len(component.Settings)
		}
		if applied == 0 && len(spec.DriftPolicy.IgnoredFields) == 0 { // its fields stay in the objects
			t.Errorf("no effect:\n%s", text)
		}
	}
}
