// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

// completions returns the completions of a command line.
func completions(t *testing.T, words ...string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(runGood(t, append([]string{"__complete"}, words...)...)) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		found = append(found, word)
	}
	return found
}

func TestCompletion_SourcesFromImagesJSONAndFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	aws, core := "quay.io/example/aws@sha256:"+strings.Repeat("a", 64), "quay.io/example/core@sha256:"+strings.Repeat("c", 64)
	if got := completions(t, "inspect", ""); !slices.Equal(got, []string{":0"}) {
		t.Errorf("without images.json: got completions %q, want none, so that the shell completes files", got)
	}
	if err := os.WriteFile("images.json", []byte(`{"aws": "`+aws+`", "core": "`+core+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("quay.io/mine", 0o700); err != nil {
		t.Fatal(err)
	}
	for begun, want := range map[string][]string{
		"":                  {aws, core, "images.json", "quay.io/", ":4"},
		"quay.io/example/c": {core, ":4"},
		"quay.io/m":         {":0"},
	} {
		if got := completions(t, "inspect", begun); !slices.Equal(got, want) {
			t.Errorf("completions of %q: got %q, want %q", begun, got, want)
		}
	}
	for _, words := range [][]string{{"tree", "quay.io/example/c"}, {"rbac", aws, "quay.io/example/c"}, {"pack", "quay.io/example/c"}, {"pack", "x", "--base", "quay.io/example/c"}} {
		if got := completions(t, words...); !slices.Equal(got, []string{core, ":4"}) {
			t.Errorf("completions of %q: got %q", words, got)
		}
	}
	if got := completions(t, "plan", "--image", ""); !slices.Equal(got, []string{"aws=", "core=", ":6"}) {
		t.Errorf("completions of the name of an override: got %q", got)
	}
	if got := completions(t, "inspect", "quay.io/x", ""); !slices.Equal(got, []string{":4"}) {
		t.Errorf("completions of a second source: got %q", got)
	}
}

func TestCompletion_RuleIDs(t *testing.T) {
	if got := completions(t, "explain", "installer/no-s"); !slices.Contains(got, "installer/no-secret") {
		t.Errorf("got %q", got)
	}
}

func TestCompletion_FourShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if script := runGood(t, "completion", shell); !strings.Contains(script, "capi-manifests") {
			t.Errorf("%s: %d bytes", shell, len(script))
		}
	}
}

// TestPlugin_RunsUnderKubectl checks that the real kubectl finds the program by its name.
func TestPlugin_RunsUnderKubectl(t *testing.T) {
	programs := controlplane.Binary(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubectl := filepath.Join(dir, "kubectl")
	for from, to := range map[string]string{programs: kubectl, self: filepath.Join(dir, command.PluginName)} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "capi-manifests", "explain", "--help")
	cmd.Env = append(os.Environ(), "PATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kubectl capi-manifests explain [RULE]") {
		t.Errorf("got %s, %v", out, err)
	}
}
