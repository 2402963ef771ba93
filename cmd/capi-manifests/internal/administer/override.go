// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

const overrideLong = `Replace images of the release in a cluster, for development, tests and hotfixes. While there is an override, the
cluster reports Upgradeable=False. "plan --image" shows the result of an override before it is made.`

const overrideSetLong = `Replace images of the release, or add images. KEY is a key of images.json; a new key adds an image. The image is a
reference by digest. Other overrides stay.` + help

const overrideSetExample = `  # Try the image of a provider
  capi-manifests override set aws-cluster-api-controllers=quay.io/me/capa@sha256:1f0e3dad99908345f7439f8ffabdffc4b6a1a1c5b1a2d3e4f5061728394a5b6c`

const overrideClearLong = `Return to the images of the release: for some keys of images.json, or for all without arguments.` + help

const overrideClearExample = `  # Remove all overrides
  capi-manifests override clear`

func newOverride() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "override",
		Short:             "Replace images of the release in a cluster",
		Long:              overrideLong,
		Example:           overrideSetExample + "\n\n" + overrideClearExample,
		Args:              cli.KnownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOverrideSet(), newOverrideClear())
	return cmd
}

func newOverrideSet() *cobra.Command {
	flags := &changeFlags{}
	cmd := &cobra.Command{
		Use:               "set KEY=IMAGE...",
		Short:             "Replace images of the release",
		Long:              overrideSetLong,
		Example:           overrideSetExample,
		Args:              cli.AtLeastOneArg("KEY=IMAGE, a key of images.json and an image by digest"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := overridesIn(args)
			if err != nil {
				return err
			}
			object, err := flags.read(cmd)
			if err != nil {
				return err
			}
			done := "The images are replaced; capi-manifests status --wait waits for their rollout."
			if added := unknownKeys(object, images); added != nil {
				done += " No component has the key " + strings.Join(added, ", ") + ": the image is added to the release."
			}
			return flags.apply(cmd, done, setOverrides(object, images))
		},
	}
	flags.register(cmd)
	return cmd
}

// overridesIn parses arguments KEY=IMAGE.
func overridesIn(args []string) (images []v1alpha1.ImageOverride, err error) {
	var errs []error
	for _, arg := range args {
		key, image, found := strings.Cut(arg, "=")
		if !found || key == "" || image == "" {
			errs = append(errs, fmt.Errorf("invalid argument %q: want KEY=IMAGE", arg))
			continue
		}
		if !strings.Contains(image, "@sha256:") {
			errs = append(errs, fmt.Errorf("invalid image %q: want a reference by digest, <registry>/<repository>@sha256:<64 hex digits>", image))
		}
		images = append(images, v1alpha1.ImageOverride{Name: key, Image: v1alpha1.ImageReference(image)})
	}
	return images, cli.WrongUsage(errors.Join(errs...))
}

// unknownKeys returns the keys that no component of the desired version has.
func unknownKeys(object *v1alpha1.ClusterAPI, images []v1alpha1.ImageOverride) (unknown []string) {
	known := map[string]bool{}
	for _, version := range object.Status.Versions {
		for _, component := range version.Components {
			known[component.Source] = true
		}
	}
	for _, image := range images {
		if !known[image.Name] && len(known) > 0 {
			unknown = append(unknown, image.Name)
		}
	}
	return unknown
}

func newOverrideClear() *cobra.Command {
	flags := &changeFlags{}
	cmd := &cobra.Command{
		Use:               "clear [KEY...]",
		Short:             "Return to the images of the release",
		Long:              overrideClearLong,
		Example:           overrideClearExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, keys []string) error {
			object, err := flags.read(cmd)
			if err != nil {
				return err
			}
			patch, err := clearOverrides(object, keys)
			if err != nil {
				return cli.WrongUsage(err)
			}
			return flags.apply(cmd, "The overrides are removed; capi-manifests status --wait waits for the rollout.", patch)
		},
	}
	flags.register(cmd)
	return cmd
}

// setOverrides returns the patch that replaces the images of some names; other overrides stay.
func setOverrides(cluster *v1alpha1.ClusterAPI, images []v1alpha1.ImageOverride) change {
	overrides := slices.Clone(cluster.Spec.ImageOverrides)
	for _, image := range images {
		if at := indexOf(overrides, image.Name); at >= 0 {
			overrides[at] = image
		} else {
			overrides = append(overrides, image)
		}
	}
	return overridesPatch(cluster, overrides)
}

// clearOverrides returns the patch that removes the overrides with some names, or all without names. A name without an
// override is an error.
func clearOverrides(cluster *v1alpha1.ClusterAPI, names []string) (change, error) {
	if len(names) == 0 {
		return overridesPatch(cluster, nil), nil
	}
	overrides := slices.Clone(cluster.Spec.ImageOverrides)
	for _, name := range names {
		at := indexOf(overrides, name)
		if at < 0 {
			return change{}, fmt.Errorf("image %q has no override; spec.imageOverrides has %s", name, listed(overrides))
		}
		overrides = slices.Delete(overrides, at, at+1)
	}
	return overridesPatch(cluster, overrides), nil
}

func overridesPatch(cluster *v1alpha1.ClusterAPI, overrides []v1alpha1.ImageOverride) change {
	list := make([]map[string]string, len(overrides))
	for i, override := range overrides {
		list[i] = map[string]string{"name": override.Name, "image": string(override.Image)}
	}
	return listPatch(cluster, "imageOverrides", list)
}

func indexOf(overrides []v1alpha1.ImageOverride, name string) int {
	return slices.IndexFunc(overrides, func(o v1alpha1.ImageOverride) bool { return o.Name == name })
}

func listed(overrides []v1alpha1.ImageOverride) string {
	var names []string
	for _, override := range overrides {
		names = append(names, override.Name)
	}
	if names == nil {
		return "no entry"
	}
	return strings.Join(names, ", ")
}
