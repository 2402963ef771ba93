// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/registry"
)

// TestHelp_ExamplesWork runs the examples in the help of each command, without the programs after a pipe. The files and
// images of the examples exist.
func TestHelp_ExamplesWork(t *testing.T) {
	expand := exampleEnvironment(t)
	for _, cmd := range commandsBelow(command.New("")) {
		if slices.Contains(clusterCommands, cmd.Name()) || slices.Contains(changingCommands, cmd.Name()) {
			continue // TestHelp_ExamplesOfAClusterWork and TestHelp_ExamplesOfChangingCommandsAreRun
		}
		for _, line := range exampleLines(cmd.Example) {
			t.Run(line, func(t *testing.T) {
				if _, set, found := strings.Cut(line, "SOURCE_DATE_EPOCH="); found && set != "" {
					t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
				}
				_, words, found := strings.Cut(line, "capi-manifests ")
				if !found {
					t.Fatal("the example does not run capi-manifests")
				}
				args := strings.Fields(expand(words))
				good := []int{cli.ExitGood}
				if args[0] == "diff" {
					good = append(good, cli.ExitFindings) // the releases differ
				}
				if code, stdout, stderr := run(t, args...); !slices.Contains(good, code) || stdout+stderr == "" {
					t.Errorf("exit code %d: %s", code, stderr)
				}
			})
		}
	}
}

// pages are the pages whose commands run in the same environment, from a heading on; a cluster's commands run elsewhere.
var pages = map[string]string{"docs/settings.md": "", "docs/try-a-change.md": "", "docs/registries.md": "### Sign an image"}

// TestPages_CommandsWork runs the lines of pages that begin with capi-manifests.
func TestPages_CommandsWork(t *testing.T) {
	texts := map[string]string{}
	for page, heading := range pages {
		content, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		_, texts[page], _ = strings.Cut(string(content), heading)
	}
	expand := exampleEnvironment(t)
	const settings = "spec: {components: [{name: cluster-api-provider-aws, variables: [{name: EXAMPLE_LOGLEVEL, value: '2'}]}]}"
	if err := os.WriteFile("clusterapi.yaml", []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	for page, text := range texts {
		commands := regexp.MustCompile(`(?m)^capi-manifests ([^#\n]*)`).FindAllStringSubmatch(text, -1)
		if len(commands) < 2 {
			t.Fatalf("%s: %d commands after %q", page, len(commands), pages[page])
		}
		for _, command := range commands {
			runGood(t, strings.Fields(expand(command[1]))...)
		}
	}
}

// commandsBelow returns a command and its subcommands, if they have examples.
func commandsBelow(cmd *cobra.Command) []*cobra.Command {
	found := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		found = append(found, commandsBelow(below)...)
	}
	return slices.DeleteFunc(found, func(c *cobra.Command) bool { return c.Example == "" })
}

var (
	continued     = regexp.MustCompile(`(\\|\||&&)\n *`)
	otherPrograms = regexp.MustCompile(` +(\||>) .*$`)
)

// exampleLines returns the command lines of capi-manifests in an example.
func exampleLines(example string) []string {
	var lines []string
	joined := continued.ReplaceAllStringFunc(example, func(end string) string {
		return strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(end, "\n")), `\`) + " "
	})
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if _, after, both := strings.Cut(line, "&& "); both {
			line = after
		}
		if line = otherPrograms.ReplaceAllString(line, ""); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// sidecar is a kustomization of a provider whose pod has a second container.
const sidecar = `resources: [../config/default]
patches:
- target: {kind: Deployment}
  patch: |
    - {op: add, path: /spec/template/spec/containers/-, value: {name: proxy, image: "gcr.io/kube-rbac-proxy:v0.16"}}
`

// exampleEnvironment creates the working directory and the registry of the examples, and returns a function that
// replaces the placeholders in the words of an example.
func exampleEnvironment(t *testing.T) (expand func(string) string) {
	t.Helper()
	kubeconfig := controlplane.Shared(t).Kubeconfig
	providers, err := filepath.Abs("testdata/providers")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	reg := registry.New(t, registry.Options{})
	write := func(file, content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("registries.conf", "[[registry]]\nlocation = \"quay.io\"\nblocked = true\n") // no image is pulled from it
	t.Setenv("CONTAINERS_REGISTRIES_CONF", filepath.Join(dir, "registries.conf"))
	if err := writeSigningKey(dir, "cosign"); err != nil {
		t.Fatal(err)
	}
	write("policy.json", `{"default": [{"type": "insecureAcceptAnything"}]}`)
	write("metadata.yaml", "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 2, minor: 10, contract: v1beta2}\n")
	for _, folder := range []string{".kube", "config", "sidecar", "old", "new", "v2.10.0", "v2.11.0"} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(kubeconfig, ".kube/config"); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS("config/default", os.DirFS(filepath.Join(providers, "example"))); err != nil {
		t.Fatal(err)
	}
	write("sidecar/kustomization.yaml", sidecar)
	const aws = "--provider-name cluster-api-provider-aws --provider-type infrastructure --provider-version v2.10.0 --platform AWS --image-name registry.example.com/openshift:aws"
	runGood(t, append([]string{"generate", "config/default"}, strings.Fields(aws)...)...)
	runGood(t, strings.Fields("generate "+filepath.Join(providers, "core")+" --provider-name cluster-api --provider-type core --provider-version v1.10.2 --image-name registry.example.com/openshift:core --output-dir core")...)
	pushed := map[string]string{}
	for repository, bundle := range map[string]string{"capa:v2.10.0": "capi-manifests", "capa:bundled": "capi-manifests", "capa:mine": "core", "addon:bundled": "capi-manifests", "core:bundled": "core"} {
		pushed[repository] = strings.TrimSpace(runGood(t, "pack", bundle, "--push", reg.Host()+"/me/"+repository, "--quiet"))
	}
	runGood(t, "pack", "capi-manifests", "--output-layout", "capa.oci")
	release := `{"cluster-capi-controllers": "` + reg.Host() + `/me/core@` + pushed["core:bundled"] + `", "aws-cluster-api-controllers": "` + reg.Host() + `/me/capa@` + pushed["capa:bundled"] + `"}`
	for _, file := range []string{"images.json", "old/images.json", "new/images.json"} {
		write(file, release)
	}
	for _, version := range []string{"v2.10.0", "v2.11.0"} {
		write(version+"/infrastructure-components.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: capa-system, labels: {cluster.x-k8s.io/provider: infrastructure-aws}}\ndata: {version: "+version+"}\n")
	}
	write("images.txt", "core="+reg.Host()+"/me/core:bundled\naws="+reg.Host()+"/me/capa:bundled\n")
	base := registry.MustImage(t, registry.Layer{Txtar: "-- bin/manager --\nmanager\n"})
	saveArchive(t, "built.tar", base)
	saveArchive(t, "capa.tar", registry.MustImage(t, shipped(t)))
	return func(words string) string {
		return strings.NewReplacer(
			"quay.io/me/capi-installer@sha256:…", reg.Host()+"/me/capa@"+pushed["capa:bundled"], "mirror.example.com/capi", reg.Host()+"/mirror",
			"quay.io/me/capa@sha256:…", reg.Host()+"/me/capa@"+pushed["capa:bundled"], "quay.io/me/", reg.Host()+"/me/", "sha256:…", "sha256:"+strings.Repeat("a", 64),
			"./config ... --image ", "sidecar "+aws+" --image ", "./config ...", "config/default "+aws, "...", aws, "~", dir,
		).Replace(words)
	}
}

// saveArchive writes an archive in the format of "podman save".
func saveArchive(t *testing.T, file string, image v1.Image) {
	t.Helper()
	tag, err := name.NewTag("quay.io/example/saved:v1")
	if err == nil {
		err = tarball.WriteToFile(file, tag, image)
	}
	if err != nil {
		t.Fatal(err)
	}
}
