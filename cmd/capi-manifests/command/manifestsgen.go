// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/extractor"
)

// manifestsGenFlags holds the flags of OpenShift's manifests-gen that have other
// names here (https://github.com/openshift/cluster-capi-operator,
// docs/provider-contract.md).
type manifestsGenFlags struct {
	basePath, kustomizeDir, manifestsPath, profile string
	attributes                                     []string
	further                                        map[string]string // attributes
	summary                                        bool
}

// register adds the flags, hidden because docs/manifests-gen.md explains them. A
// synonym sets the value of its flag.
func (f *manifestsGenFlags) register(cmd *cobra.Command, provider *providerFlags) {
	set := cmd.Flags()
	set.StringVar(&f.basePath, "base-path", "", "base `directory` of --kustomize-dir")
	set.StringVar(&f.kustomizeDir, "kustomize-dir", "", "kustomize `directory`")
	set.StringVar(&f.manifestsPath, "manifests-path", "", "output `directory`, with one directory per profile")
	set.StringVar(&f.profile, "profile-name", "default", "name of the profile's directory in --manifests-path")
	set.StringVar(&provider.ProviderName, "name", "", "the same as --provider-name")
	set.StringArrayVar(&f.attributes, "attribute", nil, "key=value; type and version are --provider-type and --provider-version")
	for _, name := range []string{"self-image-ref", "provider-image-ref", "manifest-image-name"} {
		set.StringVar(&provider.ImageName, name, "", "the same as --image-name")
	}
	set.StringSliceVar(&provider.ProtectClusters, "infracluster-resource", nil, "the same as --protect-cluster-resource")
	set.BoolVar(&f.summary, "manifests-summary", false, "list of the objects in "+bundle.ManifestsSummaryFile+"; requires --manifests-path")
	set.IntVar(&provider.InstallOrder, "install-order", 0, "install order among providers of one type; requires --manifests-path")
	for _, name := range []string{
		"base-path", "kustomize-dir", "manifests-path", "profile-name", "name", "attribute", "self-image-ref",
		"provider-image-ref", "manifest-image-name", "infracluster-resource", "install-order", "manifests-summary",
	} {
		_ = set.MarkHidden(name) // the flag exists
	}
}

// args requires one argument, or the flags that replace it.
func (f *manifestsGenFlags) args(cmd *cobra.Command, args []string) error {
	if f.kustomizeDir == "" && f.basePath == "" {
		return cli.OneArg("DIR, the directory that holds the kustomization.yaml")(cmd, args)
	}
	return cli.NoArgs(cmd, args)
}

// dir returns the kustomize directory.
func (f *manifestsGenFlags) dir(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return filepath.Join(f.basePath, cmp.Or(f.kustomizeDir, filepath.Join("config", "default")))
}

// apply reads the attributes, and returns all errors of the flags.
func (f *manifestsGenFlags) apply(cmd *cobra.Command, provider *providerFlags) error {
	attributes, err := cli.Pairs("attribute", f.attributes)
	if err != nil {
		return err
	}
	var errs []error
	for _, known := range []struct {
		key  string
		flag *string
	}{{"type", &provider.providerType}, {"version", &provider.ProviderVersion}} {
		if value := attributes[known.key]; value != "" && *known.flag != "" && *known.flag != value {
			errs = append(errs, fmt.Errorf("--attribute %s=%s conflicts with --provider-%[1]s %[3]s", known.key, value, *known.flag))
		}
		*known.flag = cmp.Or(*known.flag, attributes[known.key])
		delete(attributes, known.key)
	}
	f.further = attributes
	if provider.InstallOrder != 0 && (f.manifestsPath == "" || cmd.Flag("output-dir").Changed) {
		errs = append(errs, errors.New("--install-order requires --manifests-path: metadata.json has no field for it; providers are installed by type, then by name"))
	}
	if f.summary && f.manifestsPath == "" {
		errs = append(errs, errors.New("--manifests-summary requires --manifests-path"))
	}
	if len(attributes) > 0 && f.manifestsPath == "" {
		errs = append(errs, fmt.Errorf("--attribute %s=… requires --manifests-path: metadata.json has no field for it", slices.Sorted(maps.Keys(attributes))[0]))
	}
	if f.profile == "" || f.profile != path.Base(f.profile) || f.profile == ".." || f.profile == "." {
		errs = append(errs, fmt.Errorf("invalid --profile-name %q: want the name of a directory", f.profile))
	}
	if len(errs) > 0 {
		return cli.WrongUsage(errors.Join(errs...))
	}
	return nil
}

// files returns the files of the profile's directory by name.
func (f *manifestsGenFlags) files(generated extractor.Bundle) (map[string][]byte, error) {
	generated.Profile, generated.Attributes = f.profile, map[string]any{}
	for name, value := range f.further {
		generated.Attributes[name] = value
	}
	content, err := generated.ProfileFiles()
	if err != nil {
		return nil, err
	}
	files := byName(content)
	if f.summary {
		if files[bundle.ManifestsSummaryFile], err = bundle.ManifestsSummary(generated); err != nil {
			return nil, err
		}
	}
	return files, nil
}
