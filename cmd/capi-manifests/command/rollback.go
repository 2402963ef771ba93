// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/administer"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/install/history"
)

const rollbackLong = `Return to the images.json and the release-version of an earlier version, as the history has recorded them: of a version
or release by its name, or else of the version that was installed last before the requested one. The installer then installs
a new version with the same content.

rollback patches the ConfigMap with images.json; if release-version changes, it restarts the installer. The image of the
installer, image overrides and unmanaged CRDs stay as they are. Afterwards return to the old images.json in your
kustomization or Helm values too: applying them again would request the newer release.

In OpenShift, the cluster version operator owns both files, and rollback changes nothing.` + administerHelp

const rollbackExample = `  # Show the versions that were installed
  capi-manifests history

  # Return to the previous one, and wait for it
  capi-manifests rollback
  capi-manifests status --wait --timeout 30m`

func newRollback() *cobra.Command {
	flags := &administerFlags{}
	cmd := &cobra.Command{
		Use:               "rollback [VERSION]",
		Short:             "Return to an earlier installed version",
		Long:              rollbackLong,
		Example:           rollbackExample,
		Args:              cli.AtMostOneArg,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return runRollback(cmd, flags, name)
		},
	}
	flags.register(cmd)
	return cmd
}

// errReleaseOfOpenShift is the error of rollback in OpenShift.
var errReleaseOfOpenShift = errors.New("the cluster version operator owns images.json and release-version, which are part of the release of OpenShift, and would restore them; " +
	"replace single images with capi-manifests override set, or select another release with oc adm upgrade")

func runRollback(cmd *cobra.Command, flags *administerFlags, name string) error {
	cluster, err := flags.cluster.connect()
	if err != nil {
		return err
	}
	switch openShift, err := cluster.IsOpenShift(cmd.Context()); {
	case err != nil:
		return err
	case openShift:
		return &installed.AccessError{Subject: "rollback", Err: errReleaseOfOpenShift, Permanent: true}
	}
	snapshot, err := cluster.Snapshot(cmd.Context())
	if err != nil {
		return err
	}
	if snapshot.Requested == nil {
		return &installed.AccessError{Subject: "rollback", Permanent: true, Err: fmt.Errorf("Deployment capi-installer in namespace %s mounts no ConfigMap with images.json", cluster.Namespace),
			NextStep: "if the installer runs outside the cluster, start it with the earlier images.json"}
	}
	entries, err := cluster.History(cmd.Context())
	if err != nil {
		return err
	}
	to, err := administer.Target(entries, name, *snapshot.Requested)
	if err != nil {
		return cli.WrongUsage(err)
	}
	return flags.apply(cmd, rolledBack(to), administer.Rollback(to, *snapshot.Requested, time.Now())...)
}

// rolledBack describes a rollback and the next steps.
func rolledBack(to history.Entry) string {
	done := fmt.Sprintf("The inputs of version %s are requested; capi-manifests status --wait --for-version %s waits for the rollout.\n"+
		"Return to them in your kustomization or Helm values too.", to.Version, to.Release)
	for _, component := range to.Components {
		if component.Overridden {
			done += fmt.Sprintf("\nVersion %s had an override; to restore it: capi-manifests override set %s=%s", to.Version, component.Source, component.Image)
		}
	}
	return done
}
