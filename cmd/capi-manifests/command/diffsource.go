// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
)

// diffSourceFlags holds the flags for reading A and B.
type diffSourceFlags struct {
	platform  platformsFlag
	cacheDir  string
	allowTags bool
	settings  string
	variables []string
	provider  providerFlags
}

func (o *diffSourceFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.Var(&o.platform, "platform", "`platform` whose components of releases are compared, such as AWS; may be repeated, and contain commas (default every provider)")
	set.BoolVar(&o.allowTags, "allow-tags", false, "accept tags in images.json and resolve them; a cluster rejects tags")
	set.StringArrayVar(&o.variables, "var", nil, "`name=value` of a variable in the manifests of releases; may be repeated")
	set.StringVar(&o.settings, "settings", "", "`file` with a ClusterAPI object or its spec, whose settings of components are applied to both releases; requires --platform")
	set.StringVar(&o.cacheDir, "cache-dir", "", "cache `directory` for the bundles of releases")
	cli.CompletePlatform(cmd)
	o.provider.registerNames(cmd)
	_ = cmd.MarkFlagDirname("cache-dir") // the flag exists
}

// open reads both sides. Either both are releases, or neither is.
func (o *diffSourceFlags) open(cmd *cobra.Command, a, b string) (before, after diffreport.Side, err error) {
	variables, err := cli.Pairs("var", o.variables)
	if err := cli.WrongUsage(o.platform.parse(), err); err != nil {
		return diffreport.Side{}, diffreport.Side{}, err
	}
	isA, err := source.IsImagesJSON(a)
	isB, errB := source.IsImagesJSON(b)
	if err := errors.Join(err, errB); err != nil {
		return diffreport.Side{}, diffreport.Side{}, err
	}
	switch {
	case a == "-" && b == "-":
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(errors.New("stdin (-) can be used for only one of A and B"))
	case isA != isB:
		for _, src := range []string{a, b} {
			if _, err := os.Stat(src); src != "-" && errors.Is(err, fs.ErrNotExist) && (isA || isB) {
				if _, notImage := source.ParseImage(src); notImage != nil {
					return diffreport.Side{}, diffreport.Side{}, err
				}
			}
		}
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(fmt.Errorf("cannot compare %s and %s: only one of them is a release (images.json)", a, b))
	}
	if !isA {
		for _, flag := range []string{"platform", "var", "allow-tags", "cache-dir", "settings"} {
			if cmd.Flags().Changed(flag) {
				return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(fmt.Errorf("--%s is only valid for releases; %s and %s are not releases (images.json)", flag, a, b))
			}
		}
	}
	if given := o.provider.given(); len(given) > 0 && !isKustomize(a) && !isKustomize(b) {
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(fmt.Errorf("%s: only valid for kustomize directories and YAML files; neither %s nor %s is one", strings.Join(given, ", "), a, b))
	}
	if o.settings != "" && isA && len(o.platform.platforms) == 0 {
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(errors.New("--settings requires --platform: settings name the components of a cluster"))
	}
	settings, err := release.ReadSettings(o.settings)
	if err != nil {
		return diffreport.Side{}, diffreport.Side{}, err
	}
	open := func(src string) (diffreport.Side, error) { return o.openProvider(cmd, src) }
	if isA {
		open = func(src string) (diffreport.Side, error) {
			from := release.Source{File: src, AllowTags: o.allowTags, CacheDir: o.cacheDir, Settings: settings.Settings}
			return diffreport.Release(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), from, o.platform.platforms, variables)
		}
	}
	before, errA := open(a)
	after, errB = open(b)
	return before, after, errors.Join(errA, errB)
}

// isKustomize reports whether a source is rendered: a YAML file or a kustomize directory.
func isKustomize(src string) bool {
	return kustomize.IsManifests(src) || source.KustomizationIn(src) != "" && source.BundleIn(src) == ""
}

// openProvider reads a bundle, or renders a YAML file or a kustomize directory as validate does, with the flags that describe
// the provider.
func (o *diffSourceFlags) openProvider(cmd *cobra.Command, src string) (diffreport.Side, error) {
	if !isKustomize(src) {
		return diffreport.Read(cmd.Context(), cmd.ErrOrStderr(), src)
	}
	bundle, err := (&kustomizeFlags{o.provider}).render(cmd, src)
	if _, isOptions := errors.AsType[*transform.OptionsError](err); isOptions {
		err = fmt.Errorf("rendering %s: %w", src, err)
	}
	if err != nil {
		return diffreport.Side{}, err
	}
	return diffreport.Bundles(src, bundle)
}
