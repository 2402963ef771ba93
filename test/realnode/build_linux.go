// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

const (
	controlPlaneFile = "controlplane" // in the folder of a run: the control plane binary
	binFolder        = "bin"          // in the folder of a run: the programs of the node
)

// build is a go build in a module below this folder.
type build struct {
	module, tags string
	packages     []string
}

// builds are the programs of a node of each kind.
var builds = map[Kind][]build{
	Containers: {
		{module: "node", packages: []string{"."}},
		{module: "runtime", tags: "no_btrfs,no_devmapper,no_zfs,no_tracing", packages: []string{"tool", "./..."}},
		{module: ".", packages: []string{"./pause"}},
	},
	Processes: {
		{module: "node", packages: []string{"."}},
		{module: "runtime", packages: []string{"./coredns"}},
	},
}

// Build compiles the programs of the control plane and of a node of the chosen kind into the folder of a run. The first time takes some
// minutes; progress receives a line for each step. The working directory must be in this repository.
func Build(ctx context.Context, dir string, progress io.Writer) error {
	binary, err := controlplane.Build(ctx, progress)
	if err != nil {
		return err
	}
	if err := os.Symlink(binary, filepath.Join(dir, controlPlaneFile)); err != nil {
		return err
	}
	kind, _ := Choose()
	for _, b := range builds[kind] {
		if err := b.run(ctx, filepath.Join(dir, binFolder)+"/", progress); err != nil {
			return err
		}
	}
	return nil
}

// Compile compiles a main package in a module below this folder, with the flags of the programs of the node.
func Compile(ctx context.Context, module, main, output string, progress io.Writer) error {
	return build{module: module, packages: []string{main}}.run(ctx, output, progress)
}

// run builds with the flags of the control plane: the programs of the node share packages with it. output is a file, or a
// folder with a slash at its end.
func (b build) run(ctx context.Context, output string, progress io.Writer) error {
	fmt.Fprintf(progress, "building %s\n", path.Join("test/realnode", b.module, path.Base(b.packages[0])))
	source, err := fixture.Folder(ctx, "test", "realnode", b.module)
	if err != nil {
		return fmt.Errorf("finding the sources of the node: %w", err)
	}
	arguments := []string{"build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-ldflags=-s -w", "-tags=" + b.tags, "-o", output}
	if _, err := fixture.Go(ctx, source, []string{"CGO_ENABLED=0", "GOFLAGS="}, append(arguments, b.packages...)...); err != nil {
		return fmt.Errorf("building the programs of test/realnode/%s: %w", b.module, err)
	}
	return nil
}
