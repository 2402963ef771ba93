// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

func TestValidateHelp_ConfigFileMatchesTheSchema(t *testing.T) {
	_, text, _ := strings.Cut(validateLong, "expiry date:\n")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := findings.ReadConfig(file); err != nil {
		t.Error(err)
	}
	for text, good := range map[string]bool{text: true, "validate: {waivers: [{rule: a/b}]}": false, "validat: {}": false} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schematest.Validate(schema.Config, data); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
