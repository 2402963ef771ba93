// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

const unmanageLong = `Take CRDs away from the installer: it neither modifies nor deletes them, also not in an uninstall, and
only checks that they are compatible with the providers. --undo gives them back.

A name that is neither a CRD of the cluster nor of a stored version is rejected with the nearest name, because a typing error
would leave the CRD managed; --force accepts it.` + help

const unmanageExample = `  # Manage a CRD yourself
  capi-manifests unmanage clusters.cluster.x-k8s.io

  # Give it back to the installer
  capi-manifests unmanage clusters.cluster.x-k8s.io --undo`

func newUnmanage() *cobra.Command {
	flags := &changeFlags{}
	undo, force := false, false
	cmd := &cobra.Command{
		Use:               "unmanage CRD...",
		Short:             "Take CRDs away from the installer",
		Long:              unmanageLong,
		Example:           unmanageExample,
		Args:              cli.AtLeastOneArg("CRD, a name such as clusters.cluster.x-k8s.io"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, names []string) error {
			return runUnmanage(cmd, flags, names, undo, force)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "give the CRDs back to the installer")
	cmd.Flags().BoolVar(&force, "force", false, "accept names of CRDs that do not exist yet")
	return cmd
}

func runUnmanage(cmd *cobra.Command, flags *changeFlags, names []string, undo, force bool) error {
	object, err := flags.read(cmd)
	if err != nil {
		return err
	}
	if undo {
		patch, err := manage(object, names)
		if err != nil {
			return cli.WrongUsage(err)
		}
		return flags.apply(cmd, "The installer manages "+strings.Join(names, ", ")+" again.", patch)
	}
	if !force {
		if err := checkCRDs(cmd, flags, names); err != nil {
			return err
		}
	}
	return flags.apply(cmd, "The installer no longer manages "+strings.Join(names, ", ")+".", unmanage(object, names))
}

// checkCRDs rejects names that no CRD of the cluster or of a stored version has.
func checkCRDs(cmd *cobra.Command, flags *changeFlags, names []string) error {
	cluster, err := flags.cluster.Connect()
	if err != nil {
		return err
	}
	known, err := cluster.CRDs(cmd.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if unknown := known.Unknown(name); unknown != nil {
			errs = append(errs, unknown)
		}
	}
	return cli.WrongUsage(errs...)
}

// unmanage returns the patch that adds CRDs to spec.unmanagedCRDs.
func unmanage(cluster *v1alpha1.ClusterAPI, names []string) change {
	crds := slices.Clone(cluster.Spec.UnmanagedCRDs)
	for _, name := range names {
		if !slices.Contains(crds, name) {
			crds = append(crds, name)
		}
	}
	return listPatch(cluster, "unmanagedCRDs", crds)
}

// manage returns the patch that removes CRDs from spec.unmanagedCRDs. A CRD that is not in the list is an error.
func manage(cluster *v1alpha1.ClusterAPI, names []string) (change, error) {
	crds := slices.Clone(cluster.Spec.UnmanagedCRDs)
	for _, name := range names {
		at := slices.Index(crds, name)
		if at < 0 {
			return change{}, fmt.Errorf("CRD %s is not in spec.unmanagedCRDs", name)
		}
		crds = slices.Delete(crds, at, at+1)
	}
	return listPatch(cluster, "unmanagedCRDs", crds), nil
}
