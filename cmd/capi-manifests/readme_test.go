// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/test/controlplane"
)

// preparation makes what the README's examples find: a kustomize directory, the provider's image, and
// the images.json of a release and of the one before.
const preparation = `mkdir config
exec cp -r providers/example config/default
index example v1.2.3 providers/example
publish core
publish aws
mkdir old
images-json old/images.json core=$core aws=$aws
exec sed -i s/--v=/--verbosity=/ providers/aws/aws.yaml
publish aws
images-json images.json core=$core aws=$aws
controlplane-in-path
`

// TestTheExamplesOfTheREADMEWork runs every line of README.md that begins with capi-manifests.
func TestTheExamplesOfTheREADMEWork(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, examples := preparation, 0
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "capi-manifests ") {
			script += "exec " + line
			examples++
		}
	}
	if examples < 5 {
		t.Fatalf("README.md has %d examples of capi-manifests", examples)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "readme.txtar"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", controlplane.Shared(t).Kubeconfig)
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"publish": publish, "images-json": writeImagesJSON, "controlplane-in-path": putControlplane, "index": index},
	})
}
