// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// installed prepares a cluster with the manifests of deploy/kubernetes, and the files of the page.
const installed = `publish core
publish aws
images-json images.json core=$core aws=$aws
login $PRIVATE open-sesame
exec kubectl apply --server-side -k $DEPLOY
exec kubectl wait crd clusterapis.capi-operator.openshift.io --for=condition=Established
exec kubectl create -f clusterapi.json
exec sh -e prepare.sh
`

const prepare = `kubectl create configmap cluster-api-installer-images --namespace capi-installer-system --from-file=images.json --from-literal=release-version=1.0.0 --from-literal=platform=AWS --dry-run=client -o yaml | kubectl apply --server-side --force-conflicts -f -
`

// TestPrivateRegistries_CommandsWork runs the commands of docs/registries.md up to the policies; the commands for OpenShift last, with its CRDs and kubectl as oc. The sections are
// alternatives: each begins without ConfigMap capi-installer-registries.
func TestPrivateRegistries_CommandsWork(t *testing.T) {
	cluster, dir, path := controlplane.Fresh(t), t.TempDir(), t.TempDir()
	page, err := os.ReadFile("../../docs/registries.md")
	if err != nil {
		t.Fatal(err)
	}
	tasks, _, found := strings.Cut(string(page), "\n## Signature policies")
	if !found {
		t.Fatal("docs/registries.md has no section about signature policies")
	}
	ofOpenShift := ""
	script, files, commands := installed, "-- prepare.sh --\n"+prepare, 0
	for i, section := range strings.Split(tasks, "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		name := "section" + string(rune('0'+i)) + ".sh"
		files += "-- " + name + " --\n"
		for _, block := range strings.Split(section, "\n```sh\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```")
			if strings.Contains(block, "| oc ") {
				ofOpenShift = block
				continue
			}
			files += block + "\n"
			commands += strings.Count(block, "\n") + 1
		}
		script += "# " + heading + "\nexec kubectl delete configmap capi-installer-registries -n capi-installer-system --ignore-not-found\nexec sh -e -x " + name + "\n"
	}
	if commands < 11 || ofOpenShift == "" {
		t.Fatalf("%d commands, and %q for OpenShift:\n%s", commands, ofOpenShift, files)
	}
	script += "openshift\nexec sh -e -x oc.sh\nstdout created\n"
	files += "-- oc.sh --\n" + ofOpenShift + "\n"
	files = strings.NewReplacer(
		"registry.example.com/capi-installer@sha256:1f0e3dad99908345f7439f8ffabdffc4b6a1a1c5b1a2d3e4f5061728394a5b6c", "$core",
		"mirror.example.com/capi", "$PRIVATE/capi",
	).Replace(files)
	files += "-- ca-bundle.crt --\n-- clusterapi.json --\n" + `{"apiVersion": "capi-operator.openshift.io/v1alpha1", "kind": "ClusterAPI", "metadata": {"name": "cluster"}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "page.txtar"), []byte(script+files), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(controlplane.Binary(t), filepath.Join(path, "kubectl")), os.WriteFile(filepath.Join(path, "oc"), []byte("#!/bin/sh\nexec kubectl \"$@\"\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	commandsWithOpenShift := maps.Clone(scriptCommands)
	commandsWithOpenShift["openshift"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		crds, err := fixture.OpenShiftCRDs(t.Context())
		ts.Check(err)
		ts.Check(fixture.InstallCRDs(t.Context(), cluster.Config, crds))
	}
	deploy, err := filepath.Abs("../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", cluster.Kubeconfig)
			env.Setenv("DEPLOY", deploy)
			env.Setenv("PATH", path+string(os.PathListSeparator)+env.Getenv("PATH"))
			return setup(env)
		},
		Cmds: commandsWithOpenShift,
	})
}
