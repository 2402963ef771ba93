// SPDX-License-Identifier: Apache-2.0

package ci_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is a workflow of GitHub for this repository.
type workflow struct {
	Name        string            `json:"name"`
	Concurrency map[string]any    `json:"concurrency"`
	On          map[string]any    `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Timeout     int               `json:"timeout-minutes"`
		RunsOn      string            `json:"runs-on"`
		Env         map[string]string `json:"env"`
		Steps       []workflowStep    `json:"steps"`
	} `json:"jobs"`
}

type workflowStep struct {
	Name, Uses, Run string
	WorkingDir      string            `json:"working-directory"`
	With            map[string]any    `json:"with"`
	Env             map[string]string `json:"env"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	all := map[string]workflow{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		// YAML 1.1 reads the key on as true.
		content = regexp.MustCompile(`(?m)^on:`).ReplaceAll(content, []byte(`"on":`))
		var w workflow
		must(t, yaml.UnmarshalStrict(content, &w))
		all[filepath.Base(file)] = w
	}
	return all
}

// TestWorkflows_Run: shells accept the commands, targets of make exist, and nothing of an event is pasted into a command.
func TestWorkflows_Run(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	must(t, err)
	for file, w := range workflows(t) {
		if len(w.On) == 0 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: on %v, permissions %v, want contents: read", file, w.On, w.Permissions)
		}
		for name, job := range w.Jobs {
			if job.Timeout == 0 || job.RunsOn == "" || len(job.Steps) == 0 {
				t.Errorf("%s: job %s has no time limit, no machine or no steps", file, name)
			}
			for _, s := range job.Steps {
				if (s.Uses == "") == (s.Run == "") {
					t.Errorf("%s: a step of %s neither uses nor runs, or both: %+v", file, name, s)
				}
				if s.Uses != "" && !regexp.MustCompile(`^[\w.-]+/[\w./-]+@v\d+$`).MatchString(s.Uses) {
					t.Errorf("%s uses %q, want a version", file, s.Uses)
				}
				if strings.Contains(s.Run, "${{") {
					t.Errorf("%s: an expression in a command: %s", file, s.Run)
				}
				shell := exec.CommandContext(t.Context(), "bash", "-n", "-c", s.Run)
				if output, err := shell.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", file, err, output)
				}
				for _, target := range regexp.MustCompile(`\bmake ([a-z]+)`).FindAllStringSubmatch(s.Run, -1) {
					if !strings.Contains(string(makefile), "\n"+target[1]+":") {
						t.Errorf("%s: make target %s not found", file, target[1])
					}
				}
			}
		}
	}
}

// TestWorkflows_RunTheTestsOfREADME: a pull request is tested by the command of README.md.
func TestWorkflows_RunTheTestsOfREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	_, commands, _ := strings.Cut(string(readme), "Run all tests:\n\n```sh\n")
	command, _, found := strings.Cut(commands, "\n```")
	if !found {
		t.Fatal("README.md has no command that runs all tests")
	}
	w := workflows(t)["test.yml"]
	if _, pulls := w.On["pull_request"]; !pulls || !slices.ContainsFunc(w.Jobs["test"].Steps, func(s workflowStep) bool { return s.Run == command }) {
		t.Errorf("test.yml does not run %q on pull requests: %+v", command, w)
	}
}

// TestWorkflows_SignARelease: a tag makes a release, whose images, chart, provenance and checksums are signed without a stored key.
func TestWorkflows_SignARelease(t *testing.T) {
	w := workflows(t)["release.yml"]
	job := w.Jobs["release"]
	if job.Permissions["id-token"] != "write" || w.On["push"] == nil {
		t.Errorf("on %v, permissions %v", w.On, job.Permissions)
	}
	var runs []string
	for _, s := range job.Steps {
		runs = append(runs, s.Run)
	}
	all := strings.Join(runs, "\n")
	for _, want := range []string{
		`make release VERSION="$VERSION" IMAGE="$REGISTRY/capi-installer"`, "cosign sign --yes --new-bundle-format=false", "--recursive",
		"for file in capi-installer-*.tgz provenance.intoto.json SHA256SUMS", "cosign sign-blob --yes --bundle", "--notes-file _output/release/release-notes.md",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("release.yml does not run %s", want)
		}
	}
	if strings.Contains(all, "--key") {
		t.Error("release.yml signs with a key")
	}
}
