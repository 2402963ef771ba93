// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/install/history"
)

const rollbackLong = `Return to the images.json and the release-version of an earlier version, as the history has recorded them: of a version
or release by its name, or else of the version that was installed last before the requested one. The installer then installs
a new version with the same content.

rollback patches the ConfigMap with images.json; if release-version changes, it restarts the installer. The image of the
installer, image overrides and unmanaged CRDs stay as they are. Afterwards return to the old images.json in your
kustomization or Helm values too: applying them again would request the newer release.

In OpenShift, the cluster version operator owns both files, and rollback changes nothing.` + help

const rollbackExample = `  # Show the versions that were installed
  capi-manifests history

  # Return to the previous one, and wait for it
  capi-manifests rollback
  capi-manifests status --wait --timeout 30m`

func newRollback() *cobra.Command {
	flags := &changeFlags{}
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

func runRollback(cmd *cobra.Command, flags *changeFlags, name string) error {
	cluster, err := flags.cluster.Connect()
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
		return &installed.AccessError{Subject: "rollback", Permanent: true, Err: fmt.Errorf("Deployment capi-installer in namespace %s mounts no ConfigMap with images.json", cluster.Namespace), //nolint:staticcheck // a kind
			NextStep: "if the installer runs outside the cluster, start it with the earlier images.json"}
	}
	entries, err := cluster.History(cmd.Context())
	if err != nil {
		return err
	}
	to, err := target(entries, name, *snapshot.Requested)
	if err != nil {
		return cli.WrongUsage(err)
	}
	return flags.apply(cmd, rolledBack(to), rollback(to, *snapshot.Requested, time.Now())...)
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

// target returns the entry to roll back to: a version or a release by its name, or else the version that was installed last with
// other inputs than those that are requested now. entries are sorted, oldest first.
func target(entries []history.Entry, name string, requested rollout.RequestedRelease) (history.Entry, error) {
	var names []string
	for _, entry := range slices.Backward(entries) {
		switch {
		case name != "" && name != entry.Version && name != entry.Release:
		case name == "" && (entry.Result != history.Installed || isRequested(entry, requested)):
		case entry.ImagesJSON == "":
			return history.Entry{}, fmt.Errorf("the history has no images.json of version %s: it was installed by an installer that did not record it; apply its images.json yourself", entry.Version)
		case isRequested(entry, requested):
			return history.Entry{}, fmt.Errorf("version %s has the images.json and the release-version that are requested now", entry.Version)
		default:
			return entry, nil
		}
		names = append(names, entry.Version)
	}
	if name != "" {
		return history.Entry{}, fmt.Errorf("version %s is not in the history, which has %s", name, strings.Join(names, ", "))
	}
	return history.Entry{}, errors.New("the history has no other installed version")
}

// isRequested reports whether a version was made from the requested files.
func isRequested(entry history.Entry, requested rollout.RequestedRelease) bool {
	return digest.FromString(entry.ImagesJSON).String() == string(requested.ImagesDigest) && (requested.Version == "" || requested.Version == entry.Release)
}

// rollback returns the patches that request the inputs of a version: of the ConfigMap with images.json, and, because the program
// reads release-version at its start, of the pods of the installer.
func rollback(to history.Entry, requested rollout.RequestedRelease, now time.Time) []change {
	namespace, name, _ := strings.Cut(requested.ConfigMap, "/")
	data := map[string]any{rollout.ImagesKey: to.ImagesJSON}
	patches := []change{{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: namespace, Name: name, Body: map[string]any{"data": data}}}
	if requested.Version == "" || requested.Version == to.Release {
		return patches
	}
	data[rollout.VersionKey] = to.Release
	restarted := map[string]any{"kubectl.kubernetes.io/restartedAt": now.UTC().Format(time.RFC3339)}
	return append(patches, change{
		Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: namespace, Name: rollout.InstallerName,
		Body: map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": restarted}}}},
	})
}
