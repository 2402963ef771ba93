// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
)

const treeLong = `Show the components that capi-installer would install as a tree of image, component, phase,
kind and object, in install order. "plan" counts the same objects.

SOURCE is an image, an OCI layout, an archive or a directory: the tree shows only its
bundles, for every platform. Without SOURCE the tree shows a release.`

const treeExample = `  # Show the objects of an image in install order
  capi-manifests tree quay.io/me/capa:v2.10.0
  capi-manifests tree capi-manifests

  # Show the objects that a release installs on AWS
  capi-manifests tree --images-json images.json --platform AWS --release-version 4.22.0

  # Find the image that an object comes from
  capi-manifests tree --images-json images.json --platform AWS --release-version 4.22.0 -o json |
    jq -r '.[] | select([.. | .name?] | index("awsclusters.infrastructure.cluster.x-k8s.io")) | .name'`

func newTree() *cobra.Command {
	f := &treeFlags{}
	cmd := &cobra.Command{
		Use:               "tree [SOURCE]",
		Short:             "Show the objects of an image or release",
		Long:              treeLong,
		Example:           treeExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.CompleteSource,
		RunE:              f.run,
	}
	f.registerRelease(cmd)
	f.format.Register(cmd)
	return cmd
}

// treeFlags holds the flags of tree, the same as for plan.
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
	return f.format.Write(cmd.OutOrStdout(), images, func(w *bytes.Buffer) {
		for _, image := range images {
			image.Draw(w)
		}
	})
}

// ofRelease returns the tree of the release that the flags select.
func (f *treeFlags) ofRelease(cmd *cobra.Command, _ []string) ([]*report.TreeNode, error) {
	if f.imagesJSON == "" {
		missing := errors.New("SOURCE is required: an image, an OCI layout, an archive or a directory; or --images-json with --platform and --release-version")
		return nil, cli.WrongUsage(missing)
	}
	name, number, set, _, err := f.render(cmd)
	if err != nil {
		return nil, err
	}
	return report.NewTree(name, number, set, f.unmanaged)
}

// ofSource returns the tree of the bundles of a source.
func (f *treeFlags) ofSource(cmd *cobra.Command, args []string) ([]*report.TreeNode, error) {
	variables, err := f.checkSource(cmd, args)
	if err != nil {
		return nil, err
	}
	set, src, err := release.RenderSource(cmd.Context(), cmd.ErrOrStderr(), args[0], variables)
	if err != nil {
		return nil, err
	}
	for i := range set.Operands {
		set.Operands[i].Origin.Image = src
	}
	release.NoteUnused(cmd.ErrOrStderr(), f.unmanaged, variables, set)
	return report.NewTree("", 1, set, f.unmanaged) // annotations contain the version, and are not shown
}

func (f *treeFlags) checkSource(cmd *cobra.Command, args []string) (map[string]string, error) {
	variables, err := cli.Pairs("var", f.variables)
	errs := []error{err, cli.AtMostOneArg(cmd, args)}
	for _, flag := range []string{"images-json", "platform", "release-version", "allow-tags", "image", "cache-dir"} {
		if cmd.Flags().Changed(flag) {
			errs = append(errs, fmt.Errorf("--%s cannot be used with a SOURCE (%s); it is only valid for releases", flag, args[0]))
		}
	}
	return variables, cli.WrongUsage(errs...)
}
