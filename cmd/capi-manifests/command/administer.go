// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/install/history"
)

// change is a command that patches objects of a cluster.
type change struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	// undo is the usage of the flag --undo; empty without it.
	undo string
	// patches returns the patches for the arguments, and a description of their result.
	patches func(ctx context.Context, cluster *installed.Cluster, args []string, undo bool) (patches []installed.Patch, done string, err error)
}

const changeLong = `

The command prints the kubectl command for the change, and makes it. It needs the verbs get and patch on the changed objects.`

// changes are the commands that patch a cluster, as an administrator could with kubectl.
var changes = []change{
	{use: "pause", short: "Stop the installer's writes to the cluster", args: cli.NoArgs,
		long: `Pause the installer: it reports pending changes and drift, and writes nothing until it is resumed. Neither upgrades nor
an uninstall proceed while it is paused.`,
		example: "  # Show the change without making it\n  capi-manifests pause --dry-run\n\n  # Make it\n  capi-manifests pause",
		patches: mode(v1alpha1.Paused, "The installer is paused; capi-manifests resume ends it.")},
	{use: "resume", short: "End a pause of the installer", args: cli.NoArgs,
		long:    "Resume the installer: it rolls out the requested release and reverts drift again.",
		example: "  # End a pause\n  capi-manifests resume",
		patches: mode(v1alpha1.Managed, "The installer is resumed; capi-manifests status shows the progress.")},
	{use: "unmanage CRD...", short: "Take CRDs away from the installer", args: cli.Args(1, math.MaxInt, "CRD, a name such as clusters.cluster.x-k8s.io"),
		long: `Take CRDs away from the installer: it neither modifies nor deletes them, also not in an uninstall, and
only checks that they are compatible with the providers. --undo gives them back. "capi-manifests status" reports a name
that misspells a CRD of the cluster: the installer still manages that CRD.`,
		example: `  # Manage a CRD yourself
  capi-manifests unmanage clusters.cluster.x-k8s.io

  # Give it back to the installer
  capi-manifests unmanage clusters.cluster.x-k8s.io --undo`,
		undo: "give the CRDs back to the installer",
		patches: func(ctx context.Context, cluster *installed.Cluster, names []string, undo bool) ([]installed.Patch, string, error) {
			done := "The installer no longer manages " + strings.Join(names, ", ") + "; capi-manifests status shows the effect."
			if undo {
				done = "The installer manages " + strings.Join(names, ", ") + " again."
			}
			patches, err := editList(ctx, cluster, "unmanagedCRDs", func(object *v1alpha1.ClusterAPI) ([]string, error) {
				return edit(object.Spec.UnmanagedCRDs, func(name string) string { return name }, names, undo)
			})
			return patches, done, err
		}},
	{use: "override KEY=IMAGE...", short: "Replace images of the release in a cluster", args: cobra.ArbitraryArgs,
		long: `Replace images of the release, or add images, for development, tests and hotfixes. KEY is a key of images.json; a new key adds
an image. The image is a reference by digest. Other overrides stay. While there is an override, the cluster reports Upgradeable=False.
"plan --image" shows the result of an override before it is made. --undo returns to the images of the release: of some keys, or of
all without arguments.`,
		example: `  # Try the image of a provider
  capi-manifests override aws-cluster-api-controllers=quay.io/me/capa@sha256:1f0e3dad99908345f7439f8ffabdffc4b6a1a1c5b1a2d3e4f5061728394a5b6c

  # Remove all overrides
  capi-manifests override --undo`,
		undo:    "remove the overrides of the arguments, KEY or KEY=IMAGE, or all",
		patches: override},
	{use: "rollback [VERSION]", short: "Return to an earlier installed version", args: cli.Args(0, 1, ""),
		long: `Return to the images.json and the release-version of an earlier version, as the history has recorded them: of a version
or release by its name, or else of the version that was installed last before the requested one. The installer then installs
a new version with the same content.

rollback patches the ConfigMap with images.json; if release-version changes, it restarts the installer. The image of the
installer and the spec of the ClusterAPI object, with its settings, image overrides and unmanaged CRDs, stay as they are. Afterwards return to the old images.json in your
kustomization or Helm values too: applying them again would request the newer release.

In OpenShift, the cluster version operator owns both files, and rollback changes nothing.`,
		example: `  # Show the versions that were installed
  capi-manifests history

  # Return to the previous one, and wait for it
  capi-manifests rollback
  capi-manifests status --wait --timeout 30m`,
		patches: rollback},
}

// command returns the command that prints the patches as commands of kubectl, and makes them.
func (c change) command() *cobra.Command {
	flags, dryRun, undo := cli.ClusterFlags{}, false, false
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long + changeLong, Example: c.example, Args: c.args, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := flags.Connect()
			if err != nil {
				return err
			}
			patches, done, err := c.patches(cmd.Context(), cluster, args, undo)
			if err != nil {
				return err
			}
			for _, patch := range patches {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), patch.Kubectl(flags.KubectlFlags()...)); err != nil {
					return err
				}
			}
			if err := cluster.Patch(cmd.Context(), patches, dryRun); err != nil {
				return err
			}
			if dryRun {
				done = "dry run: nothing was changed"
			}
			fmt.Fprintln(cmd.ErrOrStderr(), done)
			return nil
		},
	}
	flags.Register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the API server check the change, and do not make it")
	if c.undo != "" {
		cmd.Flags().BoolVar(&undo, "undo", false, c.undo)
	}
	return cmd
}

// specPatch returns the patch that sets a field in the spec of the ClusterAPI object.
func specPatch(field string, value any) installed.Patch {
	return installed.Patch{Resource: v1alpha1.GroupVersion.WithResource("clusterapis"), Name: v1alpha1.ClusterAPIName, Body: map[string]any{"spec": map[string]any{field: value}}}
}

// mode returns the patches that set the mode of the installer.
func mode(mode v1alpha1.InstallerMode, done string) func(context.Context, *installed.Cluster, []string, bool) ([]installed.Patch, string, error) {
	return func(context.Context, *installed.Cluster, []string, bool) ([]installed.Patch, string, error) {
		return []installed.Patch{specPatch("installerMode", mode)}, done, nil
	}
}

// editList returns the patch of a list in the spec. The API server rejects the patch as a conflict if the object has changed since it was read.
func editList[T any](ctx context.Context, cluster *installed.Cluster, field string, edited func(*v1alpha1.ClusterAPI) ([]T, error)) ([]installed.Patch, error) {
	object, err := cluster.ClusterAPI(ctx)
	if err != nil {
		return nil, err
	}
	list, err := edited(object)
	if err != nil {
		return nil, cli.WrongUsage(fmt.Errorf("spec.%s %w", field, err))
	}
	patch := specPatch(field, list)
	if len(list) == 0 {
		patch = specPatch(field, nil)
	}
	patch.Body["metadata"] = map[string]any{"resourceVersion": object.ResourceVersion}
	return []installed.Patch{patch}, nil
}

// edit returns a list with added or replaced items; with undo, without items of their names, or an empty list without items.
func edit[T any](list []T, name func(T) string, items []T, undo bool) ([]T, error) {
	if undo && len(items) == 0 {
		return nil, nil
	}
	for _, item := range items {
		same := func(other T) bool { return name(other) == name(item) }
		at := slices.IndexFunc(list, same)
		switch {
		case undo && at < 0:
			var names []string
			for _, item := range list {
				names = append(names, name(item))
			}
			return nil, fmt.Errorf("does not have %s; it has %s", name(item), cmp.Or(strings.Join(names, ", "), "no entry"))
		case undo:
			list = slices.Delete(list, at, at+1)
		case at < 0:
			list = append(list, item)
		default:
			list[at] = item
		}
	}
	return list, nil
}

// override returns the patch that replaces or removes the overrides of some keys; other overrides stay.
func override(ctx context.Context, cluster *installed.Cluster, args []string, undo bool) ([]installed.Patch, string, error) {
	var images []v1alpha1.ImageOverride
	var errs []error
	if len(args) == 0 && !undo {
		errs = append(errs, errors.New("KEY=IMAGE is required: a key of images.json and an image by digest"))
	}
	for _, arg := range args {
		key, image, found := strings.Cut(arg, "=")
		switch {
		case undo:
		case !found || key == "" || image == "":
			errs = append(errs, fmt.Errorf("invalid argument %q: want KEY=IMAGE", arg))
		case !strings.Contains(image, "@sha256:"):
			errs = append(errs, fmt.Errorf("invalid image %q: want a reference by digest, <registry>/<repository>@sha256:<64 hex digits>", image))
		}
		images = append(images, v1alpha1.ImageOverride{Name: key, Image: v1alpha1.ImageReference(image)})
	}
	if err := cli.WrongUsage(errs...); err != nil {
		return nil, "", err
	}
	done := "The overrides are changed; capi-manifests status --wait waits for the rollout."
	patches, err := editList(ctx, cluster, "imageOverrides", func(object *v1alpha1.ClusterAPI) ([]v1alpha1.ImageOverride, error) {
		var keys []string
		if desired := object.Status.Version(object.Status.DesiredVersion); desired != nil {
			for _, component := range desired.Components {
				keys = append(keys, component.Source)
			}
		}
		for _, image := range images {
			if keys != nil && !undo && !slices.Contains(keys, image.Name) {
				done += fmt.Sprintf("\nNo installed image has the key %s; the keys are %s. Another key adds an image.", image.Name, strings.Join(keys, ", "))
			}
		}
		return edit(object.Spec.ImageOverrides, func(o v1alpha1.ImageOverride) string { return o.Name }, images, undo)
	})
	return patches, done, err
}

// rollback returns the patches that request the inputs of a version: of the ConfigMap with images.json, and, because the program
// reads release-version at its start, of the pods of the installer.
func rollback(ctx context.Context, cluster *installed.Cluster, args []string, _ bool) ([]installed.Patch, string, error) {
	openShift, err := cluster.IsOpenShift(ctx)
	if err != nil {
		return nil, "", err
	}
	if openShift {
		return nil, "", &installed.AccessError{Subject: "rollback", Permanent: true, Err: errors.New("the cluster version operator owns images.json and release-version, which are part of the release of OpenShift, and would restore them"),
			NextStep: "replace single images with capi-manifests override, or select another release with oc adm upgrade"}
	}
	snapshot, err := cluster.Snapshot(ctx)
	if err != nil {
		return nil, "", err
	}
	requested := snapshot.Requested
	if requested == nil {
		return nil, "", &installed.AccessError{Subject: "rollback", Permanent: true, Err: fmt.Errorf("the Deployment capi-installer in namespace %s mounts no ConfigMap with images.json", cluster.Namespace),
			NextStep: "if the installer runs outside the cluster, start it with the earlier images.json"}
	}
	to, err := rollbackTarget(snapshot.History, strings.Join(args, ""), *requested)
	if err != nil {
		return nil, "", cli.WrongUsage(err)
	}
	done := fmt.Sprintf("The inputs of version %s are requested; capi-manifests status --wait --for-version %s waits for the rollout.\n"+
		"The spec of the ClusterAPI object with its settings is not rolled back. Return to the inputs in your kustomization or Helm values too.", to.Version, to.Release)
	for _, component := range to.Components {
		if component.Overridden {
			done += fmt.Sprintf("\nVersion %s had an override; to restore it: capi-manifests override %s=%s", to.Version, component.Source, component.Image)
		}
	}
	namespace, name, _ := strings.Cut(requested.ConfigMap, "/")
	data := map[string]any{rollout.ImagesKey: to.ImagesJSON}
	patches := []installed.Patch{{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: namespace, Name: name, Body: map[string]any{"data": data}}}
	if requested.Version == "" || requested.Version == to.Release {
		return patches, done, nil
	}
	data[rollout.VersionKey] = to.Release
	var restart corev1.PodTemplateSpec
	restart.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": time.Now().UTC().Format(time.RFC3339)}
	return append(patches, installed.Patch{
		Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: namespace, Name: rollout.InstallerName,
		Body: map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": restart.ObjectMeta}}},
	}), done, nil
}

// rollbackTarget returns the entry to roll back to: a version or a release by its name, or else the version that was installed last with
// other inputs than those that are requested now. entries are sorted, oldest first.
func rollbackTarget(entries []history.Entry, name string, requested rollout.RequestedRelease) (history.Entry, error) {
	var names []string
	for _, entry := range slices.Backward(entries) {
		isRequested := digest.FromString(entry.ImagesJSON).String() == string(requested.ImagesDigest) && (requested.Version == "" || requested.Version == entry.Release)
		switch {
		case name != "" && name != entry.Version && name != entry.Release:
		case name == "" && (entry.Result != history.Installed || isRequested):
		case entry.ImagesJSON == "":
			return entry, fmt.Errorf("the history has no images.json of version %s: it was installed by an installer that did not record it; apply its images.json yourself", entry.Version)
		case isRequested:
			return entry, fmt.Errorf("version %s has the images.json and the release-version that are requested now", entry.Version)
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
