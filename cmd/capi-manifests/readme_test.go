// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/registry"
)

// preparation creates the input of the examples in the README: a kustomize directory, a fork with manifests, the image
// of the provider, and the images.json of a release and of the previous one.
const preparation = `mkdir config
exec cp -r providers/example config/default
exec cp -r providers/example openshift
exec sed -i -e s/Example/AWS/g -e s/example/aws/g openshift/kustomization.yaml openshift/example.yaml
exec mv openshift/example.yaml openshift/aws.yaml
exec capi-manifests generate --kustomize-dir openshift --name cluster-api-provider-aws --install-order 20 --attribute type=infrastructure --attribute version=v2.13.0 --self-image-ref registry.ci.openshift.org/openshift:aws-cluster-api-controllers --platform AWS --protect-cluster-resource awscluster --manifests-path openshift/capi-operator-manifests
index example v1.2.3 providers/example
publish core
publish aws
mkdir old
images-json old/images.json core=$core aws=$aws
exec sed -i s/--v=/--verbosity=/ providers/aws/aws.yaml
publish aws
images-json images.json core=$core aws=$aws
signing-key cosign
`

// TestREADME_ExamplesWork runs every line of README.md, and of a tutorial, that begins with capi-manifests.
func TestREADME_ExamplesWork(t *testing.T) {
	kubeconfig, dir := controlplane.Shared(t).Kubeconfig, t.TempDir()
	for _, page := range []string{"README.md", "docs/add-a-provider.md"} {
		script := preparation + examples(t, page)
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(page)+".txtar"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", kubeconfig)
			return setup(env)
		},
		Cmds: scriptCommands,
	})
}

// examples returns the lines of a page that begin with capi-manifests or mv as a script. Lines in blocks without sh need a cluster with
// the installer.
func examples(t *testing.T, page string) (script string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(content), "\n```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		for line := range strings.Lines(block + "\n") {
			line, file, redirects := strings.Cut(strings.TrimSpace(line), " > ")
			switch {
			case strings.HasPrefix(line, "mv "):
				script += line + "\n"
			case strings.HasPrefix(line, "capi-manifests "):
				script += "exec " + line + "\n"
				if redirects {
					script += "cp stdout " + file + "\n"
				}
			}
		}
	}
	if strings.Count(script, "\n") < 5 {
		t.Fatalf("%s has too few examples of capi-manifests:\n%s", page, script)
	}
	return script
}

// fork is a repository of a provider with the manifests of OpenShift's manifests-gen. The flags come from its
// Makefile.
type fork struct {
	name string
	// flags are replacements in the commands of the README. Its commands are for
	// cluster-api-provider-aws.
	flags []string
}

var forks = []fork{
	{"cluster-api-provider-aws", nil},
	{"cluster-api-provider-nutanix", []string{"cluster-api-provider-aws", "cluster-api-provider-nutanix", "v2.13.0", "v1.9.2", "aws-cluster-api-controllers", "nutanix-cluster-api-controllers", "AWS", "Nutanix", "awscluster", "nutanixcluster"}},
	{"cluster-api", []string{"cluster-api-provider-aws", "cluster-api", "--install-order 20", "--install-order 10", "type=infrastructure", "type=core", "v2.13.0", "v1.13.4", "aws-cluster-api-controllers", "cluster-capi-controllers", "--platform AWS", "", "awscluster", "cluster"}},
}

// TestREADME_SwitchingFromManifestsGen runs the commands of the section in the forks in the folder FORKS. The
// differences from their manifests are those in docs/manifests-gen.md.
func TestREADME_SwitchingFromManifestsGen(t *testing.T) {
	folder := os.Getenv("FORKS")
	if folder == "" {
		t.Skip("needs forks of providers in FORKS")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/manifests-gen.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "### Switching from manifests-gen\n")
	if !found {
		t.Fatal("README.md: section not found")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, fork := range forks {
		t.Run(fork.name, func(t *testing.T) {
			reg := registry.New(t, registry.Options{})
			if _, err := reg.PushTag("example", "v1.2.3", registry.MustImage(t, registry.Layer{Txtar: "-- manager --\nmanager\n"})); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(folder, fork.name))); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			commands := strings.NewReplacer(append(fork.flags, "$REGISTRY", reg.Host())...)
			compared := false
			for line := range strings.Lines(section) {
				args, isCommand := strings.CutPrefix(line, "capi-manifests ")
				switch {
				case !isCommand:
				case strings.Contains(args, "--compare"):
					compared = true
					checkDifferences(t, string(docs), fork.name, strings.Fields(commands.Replace(args)))
				case strings.HasPrefix(args, "validate") && fork.name == "cluster-api-provider-nutanix":
					if code, stdout, _ := run(t, strings.Fields(commands.Replace(args))...); code != cli.ExitFindings || !strings.Contains(stdout, "variable NUTANIX_ENDPOINT has no default") {
						t.Errorf("exit code %d: %s", code, stdout) // the fork has a variable that no cluster sets
					}
				default:
					runGood(t, strings.Fields(commands.Replace(args))...)
				}
			}
			if !compared {
				t.Error("the section has no --compare")
			}
		})
	}
}

// checkDifferences compares the output of generate --compare with the list of differences in docs/manifests-gen.md.
func checkDifferences(t *testing.T, docs, name string, args []string) {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != cli.ExitFindings {
		t.Fatalf("exit code %d, want %d\n%s", code, cli.ExitFindings, stderr)
	}
	_, after, found := strings.Cut(docs, "\n## "+name+"\n\n```text\n")
	want, _, ended := strings.Cut(after, "```\n")
	if !found || !ended {
		t.Fatalf("docs/manifests-gen.md: no list for %s", name)
	}
	if diff := cmp.Diff(want, differencesIn(stdout)); diff != "" {
		t.Errorf("docs/manifests-gen.md: differences of %s (-listed +found):\n%s", name, diff)
	}
}

// differencesIn returns the objects and fields of a text report, without values.
func differencesIn(report string) string {
	var out strings.Builder
	for line := range strings.Lines(report) {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		if objects, is := strings.CutPrefix(line, strings.Repeat(" ", 11)); is {
			out.WriteString("    " + objects)
		} else if words := strings.Fields(line); len(words) > 1 {
			field, _, _ := strings.Cut(strings.Join(words[1:], " "), ": ")
			out.WriteString(field + "\n")
		}
	}
	return out.String()
}
