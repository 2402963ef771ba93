// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

const treeLong = `Tree shows what capi-installer would install on a cluster as a tree: image, component,
phase, kind and object, in the order in which they are installed. It is what "plan"
counts.`

const treeExample = `  # All that a release installs on AWS
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
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:     "tree",
		Short:   "Show what a release would install, image by image down to each object",
		Long:    treeLong,
		Example: treeExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, number, set, _, err := f.render(cmd)
			if err != nil {
				return err
			}
			images, err := treeOf(name, number, set, f.unmanaged)
			if err != nil {
				return err
			}
			return f.format.write(cmd.OutOrStdout(), images, func(w *bytes.Buffer) {
				for _, image := range images {
					image.draw(w, "", "")
				}
			})
		},
	}
	f.registerRelease(cmd)
	return cmd
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
