// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
)

// The ways in which a bundle comes into a cluster.
const (
	byImage     = "image"
	byConfigMap = "configmap"
)

// transportFlags say in which form a bundle is written.
type transportFlags struct{ by, release string }

func (f *transportFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.by, "transport", byImage, "how the bundle comes into a cluster: image writes the files of a provider image, configmap writes ConfigMaps for the cluster version operator, with --image-name by digest")
	set.StringVar(&f.release, "release-version", "", "version of the release that the ConfigMaps are for, such as 4.22.3")
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions([]string{byImage, byConfigMap}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// check says everything that is wrong with the flags.
func (f *transportFlags) check(cmd *cobra.Command, imageName string) error {
	var errs []error
	switch f.by {
	case byImage:
		if f.release != "" {
			errs = append(errs, errors.New("--release-version is for --transport configmap; an image is of every release that lists it"))
		}
	case byConfigMap:
		if f.release == "" {
			errs = append(errs, errors.New("--transport configmap needs --release-version, such as 4.22.3"))
		}
		if _, err := name.NewDigest(imageName); imageName != "" && err != nil {
			errs = append(errs, fmt.Errorf("--transport configmap needs --image-name by digest, because nobody replaces a placeholder in ConfigMaps: %w", err))
		}
	default:
		errs = append(errs, fmt.Errorf("--transport %q is neither %s nor %s", f.by, byImage, byConfigMap))
	}
	if err := errors.Join(errs...); err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	return nil
}

// files are what is written of a bundle, by name.
func (f *transportFlags) files(bundle extractor.Bundle) (map[string][]byte, error) {
	files := map[string][]byte{}
	if f.by == byImage {
		content, err := bundle.Files()
		for file, data := range content {
			files[path.Base(file)] = data
		}
		return files, err
	}
	bundle.Metadata.ImageName = "" // it is the image of the release, and stays
	configMaps, err := configmap.ConfigMaps(bundle, f.release)
	if err != nil {
		return nil, err
	}
	for _, configMap := range configMaps {
		for _, profile := range []string{"self-managed-high-availability", "single-node-developer"} {
			configMap.Annotations["include.release.openshift.io/"+profile] = "true"
		}
		encoded, err := yaml.Marshal(configMap)
		if err != nil {
			return nil, fmt.Errorf("writing ConfigMap %s: %w", configMap.Name, err)
		}
		files[fmt.Sprintf("0000_30_cluster-api_10_%s.yaml", configMap.Name)] = encoded
	}
	return files, nil
}
