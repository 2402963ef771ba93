// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
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

// TestHelp_FitsAScreenInGroups has 60 lines for each command, and each command in a group.
func TestHelp_FitsAScreenInGroups(t *testing.T) {
	root := New("")
	for _, cmd := range root.Commands() {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if cmd.InitDefaultHelpFlag(); cmd.Help() != nil || strings.Count(out.String(), "\n") > 60 {
			t.Errorf("the help of %s has %d lines", cmd.Name(), strings.Count(out.String(), "\n"))
		}
		if cmd.GroupID == "" && !slices.Contains([]string{"version", "help", "completion"}, cmd.Name()) {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
	var out, stderr bytes.Buffer
	if code := Run(t.Context(), "", nil, nil, &out, &stderr); code != 0 || strings.Count(out.String(), "\n") > 60 {
		t.Errorf("exit code %d, %d lines:\n%s%s", code, strings.Count(out.String(), "\n"), &out, &stderr)
	}
}

// TestUnknownCommands_AreAnswered has words of other tools, and topics of help and completion.
func TestUnknownCommands_AreAnswered(t *testing.T) {
	for line, want := range map[string]string{
		"install": "kubectl apply -k deploy/kubernetes", "upgrade": "change images.json", "init": "kubectl apply", "get": "kubectl get clusterapi", "logs": "kubectl logs",
		"help nonsense": `unknown command "nonsense"`, "completion tcsh": "did you mean", "stats": "did you mean status?",
		"apply -f x": "kubectl apply -k deploy/kubernetes", "suspend --all": "capi-manifests pause", "pause --dry-run=server": "want true or false", "--nonsense": "unknown flag",
	} {
		var out, stderr bytes.Buffer
		if code := Run(t.Context(), "", strings.Fields(line), nil, &out, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), want) || out.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", line, code, &out, &stderr)
		}
	}
	var help, out, stderr bytes.Buffer
	if Run(t.Context(), "", []string{"help", "plan"}, nil, &help, &stderr) != 0 || Run(t.Context(), "", []string{"plan", "--help"}, nil, &out, &stderr) != 0 || help.String() != out.String() {
		t.Errorf("help plan: %q", &stderr)
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
