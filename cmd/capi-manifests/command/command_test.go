// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/publish"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestPackFlags_RefName(t *testing.T) {
	packed := &publish.Packed{Metadata: extractor.Metadata{ProviderName: "a", ProviderVersion: "v1"}}
	for push, want := range map[string]string{"": "a:v1", "quay.io/example/a:v2": "quay.io/example/a:v2"} {
		if got := (&packFlags{push: push}).refName(packed); got != want {
			t.Errorf("--push %q: got %q, want %q", push, got, want)
		}
	}
}

func TestRoot_HelpNamesEveryCommand(t *testing.T) {
	for _, cmd := range New("").Commands() {
		if !regexp.MustCompile(`(?m)^  (\w+, )*`+cmd.Name()+`[ ,]`).MatchString(rootLong) && cmd.Name() != "version" {
			t.Errorf("the help does not describe %s", cmd.Name())
		}
	}
}

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
