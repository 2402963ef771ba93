// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

const treeLong = `Tree shows what capi-installer would install on a cluster as a tree: image, component,
phase, kind and object, in the order in which they are installed. It is what "plan"
counts.

SOURCE is an image, an OCI layout, an archive or a directory: the tree is that of its
bundles alone, for every platform. Without SOURCE it is that of a release.`

const treeExample = `  # What would be installed of an image, and in which order?
  capi-manifests tree quay.io/me/capa:v2.10.0
  capi-manifests tree capi-manifests

  # All that a release installs on AWS
  capi-manifests tree --images-json images.json --platform AWS --release-version 4.22.0

  # Which image brings an object?
  capi-manifests tree --images-json images.json --platform AWS --release-version 4.22.0 -o json |
    jq -r '.[] | select([.. | .name?] | index("awsclusters.infrastructure.cluster.x-k8s.io")) | .name'`

// branch is a place in the tree, with what is below it.
type branch struct {
	// Is says what it is: image, component, phase, kind or object.
	Is   string `json:"is"`
	Name string `json:"name"`
	// Below are the branches in install order.
	Below []*branch `json:"below,omitempty"`
}

func newTree() *cobra.Command {
	f := &treeFlags{}
	cmd := &cobra.Command{
		Use:               "tree [SOURCE]",
		Short:             "Show what an image or a release would install, down to each object",
		Long:              treeLong,
		Example:           treeExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeSource,
		RunE:              f.run,
	}
	f.registerRelease(cmd)
	return cmd
}

// treeFlags are the flags of tree: those of plan.
type treeFlags struct{ planFlags }

func (f *treeFlags) run(cmd *cobra.Command, args []string) error {
	of := f.ofSource
	if len(args) == 0 {
		of = f.ofRelease
	}
	images, err := of(cmd, args)
	if err != nil {
		return err
	}
	return f.format.write(cmd.OutOrStdout(), images, func(w *bytes.Buffer) {
		for _, image := range images {
			image.draw(w, "", "")
		}
	})
}

// ofRelease is the tree of what the flags say.
func (f *treeFlags) ofRelease(cmd *cobra.Command, _ []string) ([]*branch, error) {
	if f.imagesJSON == "" {
		missing := errors.New("SOURCE is missing, an image, an OCI layout, an archive or a directory; or --images-json with --platform and --release-version")
		return nil, wrongUsage(cmd, missing)
	}
	name, number, set, _, err := f.render(cmd)
	if err != nil {
		return nil, err
	}
	return treeOf(name, number, set, f.unmanaged)
}

// ofSource is the tree of the bundles of a source.
func (f *treeFlags) ofSource(cmd *cobra.Command, args []string) ([]*branch, error) {
	variables, err := f.checkSource(cmd, args)
	if err != nil {
		return nil, err
	}
	set, source, err := renderSource(cmd.Context(), cmd.ErrOrStderr(), args[0], variables)
	if err != nil {
		return nil, err
	}
	for i := range set.Operands {
		set.Operands[i].Origin.Image = source
	}
	noteUnused(cmd.ErrOrStderr(), f.unmanaged, variables, set)
	return treeOf("", 1, set, f.unmanaged) // the version is in annotations, which are not shown
}

func (f *treeFlags) checkSource(cmd *cobra.Command, args []string) (map[string]string, error) {
	variables, err := pairs(cmd, "var", f.variables)
	errs := []error{err}
	if len(args) > 1 {
		errs = append(errs, fmt.Errorf("one SOURCE is wanted; there are %d: %s", len(args), strings.Join(args, " ")))
	}
	for _, flag := range []string{"images-json", "platform", "release-version", "allow-tags", "image", "cache-dir"} {
		if cmd.Flags().Changed(flag) {
			errs = append(errs, fmt.Errorf("--%s is for releases; %s is a SOURCE", flag, args[0]))
		}
	}
	return variables, wrongUsage(cmd, errs...)
}

// treeOf is a branch for each image. An image with several components comes where its first one does.
func treeOf(name string, number int64, set operand.Set, unmanaged []string) ([]*branch, error) {
	release := &branch{}
	for _, o := range set.Operands {
		phases, err := revision.Phases(name, number, operand.Set{Operands: []operand.Operand{o}}, unmanaged)
		if err != nil {
			return nil, err
		}
		component := release.at("image", o.Origin.Image).at("component", o.Name+" "+o.Version)
		for _, phase := range phases {
			for _, object := range phase.Objects {
				full := object.GetName()
				if namespace := object.GetNamespace(); namespace != "" {
					full = namespace + "/" + full
				}
				component.at("phase", phase.Name).at("kind", object.GetKind()).at("object", full)
			}
		}
	}
	return release.Below, nil
}

// at is the branch below that has a name; it grows if there is none yet.
func (b *branch) at(is, name string) *branch {
	for _, below := range b.Below {
		if below.Name == name {
			return below
		}
	}
	grown := &branch{Is: is, Name: name}
	b.Below = append(b.Below, grown)
	return grown
}

// draw writes the branch, whose own line begins with first and those below it with rest.
func (b *branch) draw(w *bytes.Buffer, first, rest string) {
	w.WriteString(first + b.Name + "\n")
	for i, below := range b.Below {
		if i == len(b.Below)-1 {
			below.draw(w, rest+"└── ", rest+"    ")
		} else {
			below.draw(w, rest+"├── ", rest+"│   ")
		}
	}
}
