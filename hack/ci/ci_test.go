// SPDX-License-Identifier: Apache-2.0

package ci_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// definition is a file for a CI system.
type definition struct{ file, schema string }

var definitions = []definition{
	{"action.yml", "action.json"},
	{"templates/validate.yml", "gitlab.json"},
	{"../../.pre-commit-hooks.yaml", "pre-commit.json"},
	{"krew.yaml", "krew.json"},
}

// text returns the file; for a template, the result for a release.
func (d definition) text(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(d.file)
	must(t, err)
	if d.file != "krew.yaml" {
		return string(content)
	}
	// The function of krew-release-bot: it downloads the archive.
	functions := template.FuncMap{"addURIAndSha": func(uri, tag string) string {
		return "uri: " + strings.ReplaceAll(uri, "{{ .TagName }}", tag) + "\n    sha256: " + strings.Repeat("a", 64)
	}}
	parsed, err := template.New(d.file).Funcs(functions).Parse(string(content))
	must(t, err)
	var out strings.Builder
	must(t, parsed.Execute(&out, map[string]string{"TagName": "v1.0.0"}))
	return out.String()
}

// data returns the content of the file, or a list of its documents if it has several.
func (d definition) data(t *testing.T) any {
	t.Helper()
	var all []any
	for _, document := range yamldoc.SplitNonEmpty([]byte(d.text(t))) {
		encoded, err := yaml.YAMLToJSONStrict(document.Text)
		if err != nil {
			t.Fatalf("%s: %v", d.file, err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
		if err != nil {
			t.Fatalf("%s: %v", d.file, err)
		}
		all = append(all, value)
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func compiledSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join("testdata", "schema", name))
	must(t, err)
	return schema
}

func TestDefinitions_ValidateAgainstTheirSchemas(t *testing.T) {
	for _, d := range definitions {
		schema := compiledSchema(t, d.schema)
		if err := schema.Validate(d.data(t)); err != nil {
			t.Errorf("%s: %v", d.file, err)
		}
		if err := schema.Validate(map[string]any{"name": "x"}); err == nil {
			t.Errorf("%s accepts an invalid definition", d.schema)
		}
	}
}

// TestDefinitions_CommandsAndFlagsExist looks up every command line in the program.
func TestDefinitions_CommandsAndFlagsExist(t *testing.T) {
	readme := definition{file: "README.md"}
	for _, d := range append(definitions, readme) {
		found := commandLines(d.text(t))
		if len(found) == 0 && d != readme {
			t.Errorf("%s runs no command", d.file)
		}
		for _, line := range found {
			if problem := unknown(line); problem != "" {
				t.Errorf("%s: %s: unknown %s", d.file, strings.Join(line, " "), problem)
			}
		}
	}
	for _, hook := range hooks(t) {
		line := append(strings.Fields(hook.Entry)[1:], hook.Args...)
		if problem := unknown(line); problem != "" {
			t.Errorf("hook %s: unknown %s", hook.ID, problem)
		}
	}
}

func TestUnknown_FindsPlantedMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"validate a --severity error -o github": "", "kubectl": "command kubectl", "validate --servity error": "flag --servity", "validate -x": "flag -x",
	} {
		if got := unknown(strings.Fields(line)); got != want {
			t.Errorf("%s: got unknown %q, want %q", line, got, want)
		}
	}
}

var commandLine = regexp.MustCompile(`(?m)(?:^|- |entry: |kubectl )(?:\s*)capi-manifests ([a-z]+\b.*)$`)

// commandLines returns the words after the name of the program, of each line that runs it.
func commandLines(text string) (lines [][]string) {
	for _, match := range commandLine.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(strings.NewReplacer("{", " ", "}", " ", ":+", " ").Replace(match[1]))
		if end := slices.IndexFunc(words, func(word string) bool { return word == ">" || word == "||" }); end >= 0 {
			words = words[:end]
		}
		lines = append(lines, words)
	}
	return lines
}

// unknown returns the first unknown command or flag of the program; empty if all are known.
func unknown(words []string) string {
	root := command.New("")
	cmd, _, err := root.Find(words[:1])
	if err != nil || cmd == root {
		return "command " + words[0]
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") && !hasFlag(cmd, strings.SplitN(word, "=", 2)[0]) {
			return "flag " + word
		}
	}
	return ""
}

func hasFlag(cmd *cobra.Command, flag string) bool {
	if name, isLong := strings.CutPrefix(flag, "--"); isLong {
		return cmd.Flags().Lookup(name) != nil
	}
	return len(flag) == 2 && cmd.Flags().ShorthandLookup(flag[1:]) != nil
}

// TestDefinitions_UseTheInputsThatTheyDeclare compares the declared inputs with the used ones.
func TestDefinitions_UseTheInputsThatTheyDeclare(t *testing.T) {
	used := regexp.MustCompile(`(?:\$\{\{|\$\[\[) *inputs\.([A-Za-z0-9_-]+)`)
	action := definitions[0].data(t).(map[string]any)
	component := definitions[1].data(t).([]any)[0].(map[string]any)["spec"].(map[string]any)
	for i, declaring := range []map[string]any{action, component} {
		declared, uses := declaring["inputs"].(map[string]any), map[string]bool{}
		for _, match := range used.FindAllStringSubmatch(definitions[i].text(t), -1) {
			uses[match[1]] = true
			if declared[match[1]] == nil {
				t.Errorf("%s uses the undeclared input %s", definitions[i].file, match[1])
			}
		}
		for name := range declared {
			if !uses[name] {
				t.Errorf("%s does not use the input %s", definitions[i].file, name)
			}
		}
	}
}

// hook is a hook of pre-commit.
type hook struct {
	ID, Entry string
	Args      []string
}

func hooks(t *testing.T) (all []hook) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(definitions[2].text(t)), &all))
	return all
}

// step is a step of the action.
type step struct {
	Run string
	Env map[string]string
}

// TestAction_RunsItsSteps builds the program as the action does, and runs its other steps, the script of the GitLab
// component and the hook with the provider in examples.
func TestAction_RunsItsSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("builds capi-manifests: run without -short")
	}
	var action struct{ Runs struct{ Steps []step } }
	data, err := json.Marshal(definitions[0].data(t))
	if err == nil {
		err = json.Unmarshal(data, &action)
	}
	must(t, err)
	own, err := filepath.Abs(".")
	must(t, err)
	dir, temp := t.TempDir(), t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "config", "default"), os.DirFS("../../cmd/capi-manifests/testdata/providers/example")))
	t.Setenv("GITHUB_ACTION_PATH", own)
	t.Setenv("RUNNER_TEMP", temp)
	inputs := strings.NewReplacer("${{ inputs.source }}", "config/default", "${{ inputs.platform }}", "AWS", "${{ inputs.severity }}", "info",
		"${{ inputs.baseline }}", "", "${{ inputs.sarif-file }}", "findings.sarif")
	released := os.Getenv("CAPI_MANIFESTS") // the folder of an unpacked archive of a release
	if released != "" {
		must(t, os.Symlink(released, filepath.Join(temp, "capi-manifests")))
	}
	for _, step := range action.Runs.Steps {
		if step.Run == "" || released != "" && strings.HasPrefix(step.Run, "go build ") {
			continue // another action, or the program is built
		}
		environment := os.Environ()
		for name, value := range step.Env {
			environment = append(environment, name+"="+inputs.Replace(value))
		}
		runScript(t, dir, step.Run, environment)
	}
	last := action.Runs.Steps[len(action.Runs.Steps)-1].Run
	if err := script(dir, last, append(os.Environ(), "SOURCE=missing")).Run(); err == nil {
		t.Error("the action succeeds for a source that does not exist")
	}
	if sarif, err := os.ReadFile(filepath.Join(dir, "findings.sarif")); err != nil || !strings.Contains(string(sarif), `"version": "2.1.0"`) {
		t.Errorf("got %.100s, %v; want SARIF", sarif, err)
	}
	t.Setenv("PATH", filepath.Join(temp, "capi-manifests")+string(os.PathListSeparator)+os.Getenv("PATH"))
	runScript(t, dir, strings.Join(append(strings.Fields(hooks(t)[0].Entry), hooks(t)[0].Args...), " "), os.Environ())

	job := definitions[1].data(t).([]any)[1].(map[string]any)["capi-manifests-validate"].(map[string]any)
	var lines []string
	for _, line := range job["script"].([]any) {
		lines = append(lines, line.(string))
	}
	environment := append(os.Environ(), "SOURCE=config/default", "PLATFORM=AWS", "SEVERITY=info")
	runScript(t, dir, strings.Join(lines, "\n"), environment)
	if junit, err := os.ReadFile(filepath.Join(dir, "capi-manifests.xml")); err != nil || !strings.Contains(string(junit), "<testsuites") {
		t.Errorf("got %.100s, %v; want JUnit", junit, err)
	}
	if err := script(dir, strings.Join(lines, "\n"), append(environment, "SOURCE=missing")).Run(); err == nil {
		t.Error("the component succeeds for a source that does not exist")
	}
}

// script returns a shell that runs a script as the CI systems do: they stop at the first error.
func script(dir, text string, environment []string) *exec.Cmd {
	shell := exec.Command("bash", "-e", "-o", "pipefail", "-c", text)
	shell.Dir, shell.Env = dir, environment
	return shell
}

func runScript(t *testing.T, dir, text string, environment []string) {
	t.Helper()
	if out, err := script(dir, text, environment).CombinedOutput(); err != nil {
		t.Fatalf("running %s: %v\n%s", text, err, out)
	}
}

// TestKrew_InstallsTheNameThatKubectlLooksUp compares the names: krew links a plugin as "kubectl-<name>" with "_"
// instead of "-", and kubectl looks "capi-manifests" up in that form.
func TestKrew_InstallsTheNameThatKubectlLooksUp(t *testing.T) {
	krew := definitions[3].data(t).(map[string]any)
	name := krew["metadata"].(map[string]any)["name"].(string)
	if link := "kubectl-" + strings.ReplaceAll(name, "-", "_"); name != "capi-manifests" || link != command.PluginName {
		t.Errorf("krew links %s as %s, want %s", name, link, command.PluginName)
	}
	for _, platform := range krew["spec"].(map[string]any)["platforms"].([]any) {
		// krew links any program under the name of the plugin.
		if bin := platform.(map[string]any)["bin"].(string); strings.TrimSuffix(bin, ".exe") != name {
			t.Errorf("the archive has %v, want %s", bin, name)
		}
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
