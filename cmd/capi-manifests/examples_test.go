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

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/registry"
)

// TestTheExamplesOfTheHelpWork runs what the help of each command shows of
// capi-manifests, where such files and images are there. What it is piped to is left out.
func TestTheExamplesOfTheHelpWork(t *testing.T) {
	expand := exampleWorld(t)
	for _, cmd := range commandsBelow(newRoot()) {
		for _, line := range exampleLines(cmd.Example) {
			t.Run(line, func(t *testing.T) {
				if _, set, found := strings.Cut(line, "SOURCE_DATE_EPOCH="); found && set != "" {
					t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
				}
				_, words, found := strings.Cut(line, "capi-manifests ")
				if !found {
					t.Fatal("it does not run capi-manifests")
				}
				var stdout, stderr strings.Builder
				args := strings.Fields(expand(words))
				good := []int{exitGood}
				if args[0] == "diff" {
					good = append(good, exitFindings) // the releases differ
				}
				if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); !slices.Contains(good, code) || stdout.Len()+stderr.Len() == 0 {
					t.Errorf("exit code %d: %s", code, &stderr)
				}
			})
		}
	}
}

// commandsBelow are a command and all below it that have examples.
func commandsBelow(cmd *cobra.Command) []*cobra.Command {
	found := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		found = append(found, commandsBelow(below)...)
	}
	return slices.DeleteFunc(found, func(c *cobra.Command) bool { return c.Example == "" })
}

var (
	continued = regexp.MustCompile(`(\\|\||&&)\n *`)
	elsewhere = regexp.MustCompile(` +(\||>) .*$`)
)

// exampleLines are the command lines in an example, without what other programs do.
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
		if line = elsewhere.ReplaceAllString(line, ""); line != "" && !strings.HasPrefix(line, "#") {
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

// exampleWorld makes the working directory and the registry that the examples
// speak of, and returns what makes of words of an example those of a command line.
func exampleWorld(t *testing.T) (expand func(string) string) {
	t.Helper()
	providers, err := filepath.Abs("testdata/providers")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary, err := buildControlplane(dir)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := controlplane.Shared(t).Kubeconfig
	t.Setenv("CONTROLPLANE_BINARY", binary)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	reg := registry.New(t, registry.Options{})
	write := func(file, content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("registries.conf", "[[registry]]\nlocation = \"quay.io\"\nblocked = true\n") // it is never asked
	t.Setenv("CONTAINERS_REGISTRIES_CONF", filepath.Join(dir, "registries.conf"))
	write("metadata.yaml", "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 2, minor: 10, contract: v1beta2}\n")
	for _, folder := range []string{".kube", "config", "sidecar", "old", "new"} {
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
	for repository, bundle := range map[string]string{"capa:v2.10.0": "capi-manifests", "capa:bundled": "capi-manifests", "addon:bundled": "capi-manifests", "core:bundled": "core"} {
		pushed[repository] = strings.TrimSpace(runGood(t, "pack", bundle, "--push", reg.Host()+"/me/"+repository, "--quiet"))
	}
	runGood(t, "pack", "capi-manifests", "--output-layout", "capa.oci")
	release := `{"cluster-capi-controllers": "` + reg.Host() + `/me/core@` + pushed["core:bundled"] + `", "aws-cluster-api-controllers": "` + reg.Host() + `/me/capa@` + pushed["capa:bundled"] + `"}`
	for _, file := range []string{"images.json", "old/images.json", "new/images.json"} {
		write(file, release)
	}
	base := registry.MustImage(t, registry.Layer{Txtar: "-- bin/manager --\nmanager\n"})
	saveArchive(t, "built.tar", base)
	saveArchive(t, "capa.tar", registry.MustImage(t, shipped(t)))
	return func(words string) string {
		return strings.NewReplacer(
			"quay.io/me/capa@sha256:…", reg.Host()+"/me/capa@"+pushed["capa:bundled"], "quay.io/me/", reg.Host()+"/me/", "sha256:…", "sha256:"+strings.Repeat("a", 64),
			"./config ... --image ", "sidecar "+aws+" --image ", "./config ...", "config/default "+aws, "...", aws, "~", dir,
		).Replace(words)
	}
}

// saveArchive writes an archive as "podman save" does.
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
