// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
)

// bundlesOfConfigMaps returns the bundles of the transport ConfigMaps in the YAML files of a directory, as
// "generate --transport configmap" writes them beside other manifests of a release; none if there are none.
func bundlesOfConfigMaps(dir string) ([]extractor.Bundle, error) {
	configMaps, err := configMapsIn(dir)
	if err != nil || len(configMaps) == 0 {
		return nil, err
	}
	releases := map[string]bool{}
	for _, configMap := range configMaps {
		releases[configMap.Annotations[configmap.ReleaseVersion]] = true
	}
	if len(releases) > 1 {
		return nil, &invalidError{fmt.Errorf("the transport ConfigMaps are of several releases: %s", strings.Join(slices.Sorted(maps.Keys(releases)), ", "))}
	}
	results, err := configmap.Bundles(configMaps, configMaps[0].Annotations[configmap.ReleaseVersion])
	errs := []error{err}
	var bundles []extractor.Bundle
	for _, result := range results {
		bundles, errs = append(bundles, result.Bundles...), append(errs, result.Err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &invalidError{err} // here no slice comes later
	}
	return bundles, nil
}

// configMapsIn are the transport ConfigMaps in the YAML files of a directory.
func configMapsIn(dir string) ([]corev1.ConfigMap, error) {
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.y*ml"))
	if err != nil {
		return nil, err
	}
	var all []corev1.ConfigMap
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(content, []byte(configmap.BundleLabel)) {
			continue // another manifest, whatever is in it
		}
		configMaps, err := decodeConfigMaps(content)
		if err != nil {
			return nil, &invalidError{fmt.Errorf("decoding %s: %w", file, err)}
		}
		all = append(all, configMaps...)
	}
	return all, nil
}

func decodeConfigMaps(content []byte) (configMaps []corev1.ConfigMap, err error) {
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return configMaps, nil
		}
		if err != nil {
			return nil, err
		}
		var configMap corev1.ConfigMap
		if err := yaml.Unmarshal(document, &configMap); err != nil {
			return nil, err
		}
		if _, labelled := configMap.Labels[configmap.BundleLabel]; labelled && configMap.Kind == "ConfigMap" {
			configMaps = append(configMaps, configMap)
		}
	}
}
