// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
)

// How a bundle gets into a cluster.
const (
	byImage     = "image"
	byConfigMap = "configmap"
)

// transportFlags select the form of the written bundle.
type transportFlags struct{ by, release string }

func (f *transportFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.by, "transport", byImage, "output `form`: image for the files of a provider image, configmap for ConfigMaps that the cluster version operator applies, with --image-name by digest")
	set.StringVar(&f.release, "release-version", "", "release `version` of the ConfigMaps, such as 4.22.3")
	cli.CompleteFixed(cmd, "transport", byImage, byConfigMap)
}

// check returns all errors of the flags.
func (f *transportFlags) check(imageName string) error {
	var errs []error
	switch f.by {
	case byImage:
		if f.release != "" {
			errs = append(errs, errors.New("--release-version requires --transport configmap; an image belongs to every release that lists it"))
		}
	case byConfigMap:
		if f.release == "" {
			errs = append(errs, errors.New("--transport configmap requires --release-version, such as 4.22.3"))
		}
		if _, err := name.NewDigest(imageName); imageName != "" && err != nil {
			errs = append(errs, fmt.Errorf("--transport configmap requires --image-name by digest, because a placeholder in ConfigMaps is not replaced: %w", err))
		}
	default:
		errs = append(errs, fmt.Errorf("invalid --transport %q: want %s or %s", f.by, byImage, byConfigMap))
	}
	if err := errors.Join(errs...); err != nil {
		return cli.WrongUsage(err)
	}
	return nil
}

// files returns the output files of a bundle by name.
func (f *transportFlags) files(bundle extractor.Bundle) (map[string][]byte, error) {
	if f.by == byImage {
		content, err := bundle.Files()
		return byName(content), err
	}
	bundle.Metadata.ImageName = "" // already the image of the release, not a placeholder
	configMaps, err := configmap.ConfigMaps(bundle, f.release)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
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
