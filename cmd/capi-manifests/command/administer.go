// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	flags                     func(*pflag.FlagSet) // nil without flags of its own
	// patches returns the patches for the arguments, and a description of their result.
	patches func(ctx context.Context, cluster *installed.Cluster, args []string) (patches []installed.Patch, done string, err error)
}

const changeLong = `

The command prints the kubectl command that makes the same change, and makes it. With --dry-run the API server only checks
it. It needs the verbs get and patch on the changed objects.`

const (
	overrideSetExample = `  # Try the image of a provider
  capi-manifests override set aws-cluster-api-controllers=quay.io/me/capa@sha256:1f0e3dad99908345f7439f8ffabdffc4b6a1a1c5b1a2d3e4f5061728394a5b6c`
	overrideClearExample = "  # Remove all overrides\n  capi-manifests override clear"
)

// changes returns the commands that patch a cluster, as an administrator could with kubectl.
func changes() []change {
	undo, force := false, false
	mode := func(mode v1alpha1.InstallerMode, done string) func(context.Context, *installed.Cluster, []string) ([]installed.Patch, string, error) {
		return func(context.Context, *installed.Cluster, []string) ([]installed.Patch, string, error) {
			return []installed.Patch{specPatch(map[string]any{"installerMode": mode})}, done, nil
		}
	}
	return []change{
		{use: "pause", short: "Stop the installer's writes to the cluster", args: cli.NoArgs,
			long: `Pause the installer: it reports pending changes and drift, and writes nothing until it is resumed. Neither upgrades nor
an uninstall proceed while it is paused.`,
			example: "  # Show the change without making it\n  capi-manifests pause --dry-run\n\n  # Make it\n  capi-manifests pause",
			patches: mode(v1alpha1.Paused, "The installer is paused; capi-manifests resume ends it.")},
		{use: "resume", short: "End a pause of the installer", args: cli.NoArgs,
			long:    "Resume the installer: it rolls out the requested release and reverts drift again.",
			example: "  # End a pause\n  capi-manifests resume",
			patches: mode(v1alpha1.Managed, "The installer is resumed; capi-manifests status shows the progress.")},
		{use: "unmanage CRD...", short: "Take CRDs away from the installer", args: cli.AtLeastOneArg("CRD, a name such as clusters.cluster.x-k8s.io"),
			long: `Take CRDs away from the installer: it neither modifies nor deletes them, also not in an uninstall, and
only checks that they are compatible with the providers. --undo gives them back.

A name that is neither a CRD of the cluster nor of a stored version is rejected with the nearest name, because a typing error
would leave the CRD managed; --force accepts it.`,
			example: `  # Manage a CRD yourself
  capi-manifests unmanage clusters.cluster.x-k8s.io

  # Give it back to the installer
  capi-manifests unmanage clusters.cluster.x-k8s.io --undo`,
			flags: func(flags *pflag.FlagSet) {
				flags.BoolVar(&undo, "undo", false, "give the CRDs back to the installer")
				flags.BoolVar(&force, "force", false, "accept names of CRDs that do not exist yet")
			},
			patches: func(ctx context.Context, cluster *installed.Cluster, names []string) ([]installed.Patch, string, error) {
				list := "The installer %s manages " + strings.Join(names, ", ") + "."
				if undo {
					return editList(ctx, cluster, "unmanagedCRDs", nil, names, fmt.Sprintf(list, "again"))
				}
				unknown, err := cluster.UnknownCRDs(ctx, names)
				if err = cmp.Or(err, cli.WrongUsage(unknown...)); err != nil && !force {
					return nil, "", err
				}
				var crds []any
				for _, name := range names {
					crds = append(crds, name)
				}
				return editList(ctx, cluster, "unmanagedCRDs", crds, nil, fmt.Sprintf(list, "no longer"))
			}},
		{use: "override set KEY=IMAGE...", short: "Replace images of the release", args: cli.AtLeastOneArg("KEY=IMAGE, a key of images.json and an image by digest"),
			long: `Replace images of the release, or add images. KEY is a key of images.json; a new key adds an image. The image is a
reference by digest. Other overrides stay.`,
			example: overrideSetExample,
			patches: setOverrides},
		{use: "override clear [KEY...]", short: "Return to the images of the release", args: cobra.ArbitraryArgs,
			long:    "Return to the images of the release: for some keys of images.json, or for all without arguments.",
			example: overrideClearExample,
			patches: func(ctx context.Context, cluster *installed.Cluster, keys []string) ([]installed.Patch, string, error) {
				return editList(ctx, cluster, "imageOverrides", nil, keys, "The overrides are removed; capi-manifests status --wait waits for the rollout.")
			}},
		{use: "rollback [VERSION]", short: "Return to an earlier installed version", args: cli.AtMostOneArg,
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
}

// newChanges returns the commands of changes. "override set" and "override clear" have a common parent.
func newChanges() (commands []*cobra.Command) {
	override := &cobra.Command{
		Use: "override", Short: "Replace images of the release in a cluster", Args: cli.KnownCommand, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Replace images of the release in a cluster, for development, tests and hotfixes. While there is an override, the
cluster reports Upgradeable=False. "plan --image" shows the result of an override before it is made.`,
		Example: overrideSetExample + "\n\n" + overrideClearExample,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range changes() {
		if use, below := strings.CutPrefix(c.use, "override "); below {
			c.use = use
			override.AddCommand(c.command())
		} else {
			commands = append(commands, c.command())
		}
	}
	return append(commands, override)
}

// command returns the command that prints the patches as commands of kubectl, and makes them.
func (c change) command() *cobra.Command {
	flags, dryRun := cli.ClusterFlags{}, false
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long + changeLong, Example: c.example, Args: c.args, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := flags.Connect()
			if err != nil {
				return err
			}
			patches, done, err := c.patches(cmd.Context(), cluster, args)
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
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), done)
			return err
		},
	}
	flags.Register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print the change; the API server checks it without storing it")
	if c.flags != nil {
		c.flags(cmd.Flags())
	}
	return cmd
}

// specPatch returns the patch that sets fields in the spec of the ClusterAPI object.
func specPatch(spec map[string]any) installed.Patch {
	return installed.Patch{Resource: v1alpha1.GroupVersion.WithResource("clusterapis"), Name: v1alpha1.ClusterAPIName, Body: map[string]any{"spec": spec}}
}

// editList returns the patch of a list in the spec that adds or replaces items, or else removes the items with some names, or all without
// names. The API server rejects the patch as a conflict if the object has changed since it was read.
func editList(ctx context.Context, cluster *installed.Cluster, field string, add []any, remove []string, done string) ([]installed.Patch, string, error) {
	object, err := cluster.ClusterAPI(ctx)
	if err != nil {
		return nil, "", err
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&object.Spec)
	if err != nil {
		return nil, "", err
	}
	list, _ := spec[field].([]any)
	var names []string
	for _, item := range list {
		names = append(names, nameOf(item))
	}
	for _, item := range add {
		if at := slices.Index(names, nameOf(item)); at >= 0 {
			list[at] = item
		} else {
			list, names = append(list, item), append(names, nameOf(item))
		}
	}
	for _, name := range remove {
		if !slices.Contains(names, name) {
			return nil, "", cli.WrongUsage(fmt.Errorf("spec.%s does not have %s; it has %s", field, name, cmp.Or(strings.Join(names, ", "), "no entry")))
		}
	}
	list = slices.DeleteFunc(list, func(item any) bool { return add == nil && (len(remove) == 0 || slices.Contains(remove, nameOf(item))) })
	patch := specPatch(map[string]any{field: list})
	if len(list) == 0 {
		patch = specPatch(map[string]any{field: nil})
	}
	patch.Body["metadata"] = map[string]any{"resourceVersion": object.ResourceVersion}
	return []installed.Patch{patch}, done, nil
}

// nameOf returns the name of an item in a list of the spec: a name, or an object with a name.
func nameOf(item any) string {
	if object, is := item.(map[string]any); is {
		item = object["name"]
	}
	return fmt.Sprint(item)
}

// setOverrides returns the patch that replaces the images of some keys, KEY=IMAGE; other overrides stay.
func setOverrides(ctx context.Context, cluster *installed.Cluster, args []string) ([]installed.Patch, string, error) {
	var images []any
	var errs []error
	for _, arg := range args {
		key, image, found := strings.Cut(arg, "=")
		switch {
		case !found || key == "" || image == "":
			errs = append(errs, fmt.Errorf("invalid argument %q: want KEY=IMAGE", arg))
		case !strings.Contains(image, "@sha256:"):
			errs = append(errs, fmt.Errorf("invalid image %q: want a reference by digest, <registry>/<repository>@sha256:<64 hex digits>", image))
		}
		images = append(images, map[string]any{"name": key, "image": image})
	}
	if err := cli.WrongUsage(errs...); err != nil {
		return nil, "", err
	}
	return editList(ctx, cluster, "imageOverrides", images, nil, "The images are replaced; capi-manifests status --wait waits for their rollout.")
}

// rollback returns the patches that request the inputs of a version: of the ConfigMap with images.json, and, because the program
// reads release-version at its start, of the pods of the installer.
func rollback(ctx context.Context, cluster *installed.Cluster, args []string) ([]installed.Patch, string, error) {
	openShift, err := cluster.IsOpenShift(ctx)
	if err != nil {
		return nil, "", err
	}
	if openShift {
		return nil, "", &installed.AccessError{Subject: "rollback", Permanent: true, Err: errors.New("the cluster version operator owns images.json and release-version, which are part of the release of OpenShift, and would restore them"),
			NextStep: "replace single images with capi-manifests override set, or select another release with oc adm upgrade"}
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
			done += fmt.Sprintf("\nVersion %s had an override; to restore it: capi-manifests override set %s=%s", to.Version, component.Source, component.Image)
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
