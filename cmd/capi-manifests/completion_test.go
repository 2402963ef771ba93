// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	install := regexp.MustCompile(`(?m)^ln -s .*$`).FindString(string(page))
	dir := t.TempDir()
	kubectl, bin := filepath.Join(dir, "kubectl"), filepath.Join(dir, "bin")
	for from, to := range map[string]string{programs: kubectl, self: filepath.Join(dir, "capi-manifests")} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + dir + string(os.PathListSeparator) + bin + string(os.PathListSeparator)
	link := exec.CommandContext(t.Context(), "sh", "-e", "-c", "mkdir ~/bin; "+install)
	link.Env = append(os.Environ(), "HOME="+dir, path+os.Getenv("PATH"))
	if out, err := link.CombinedOutput(); err != nil {
		t.Fatalf("%q of README.md: %v\n%s", install, err, out)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "capi-manifests", "explain", "--help")
	cmd.Env = append(os.Environ(), path)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kubectl capi-manifests explain [RULE]") {
		t.Errorf("got %s, %v", out, err)
	}
}
