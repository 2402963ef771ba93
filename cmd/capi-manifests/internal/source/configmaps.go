// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// EscapeGlob returns the pattern that matches only path.
func EscapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// bundlesOfConfigMaps returns the bundles of the transport ConfigMaps in the YAML
// files of a directory, as "generate --transport configmap" writes them next to
// other manifests of a release; none if there are no such ConfigMaps.
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
		return nil, &InvalidError{fmt.Errorf("the transport ConfigMaps belong to several releases: %s", strings.Join(slices.Sorted(maps.Keys(releases)), ", "))}
	}
	results, err := configmap.Bundles(configMaps, configMaps[0].Annotations[configmap.ReleaseVersion])
	errs := []error{err}
	var bundles []extractor.Bundle
	for _, result := range results {
		bundles, errs = append(bundles, result.Bundles...), append(errs, result.Err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &InvalidError{err} // no slice is added later
	}
	return bundles, nil
}

// configMapsIn returns the transport ConfigMaps in the YAML files of a directory.
func configMapsIn(dir string) ([]corev1.ConfigMap, error) {
	files, err := filepath.Glob(filepath.Join(EscapeGlob(dir), "*.y*ml"))
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
			continue // any other manifest
		}
		configMaps, err := decodeConfigMaps(content)
		if err != nil {
			return nil, &InvalidError{fmt.Errorf("decoding %s: %w", file, err)}
		}
		all = append(all, configMaps...)
	}
	return all, nil
}

func decodeConfigMaps(content []byte) (configMaps []corev1.ConfigMap, err error) {
	objects, err := yamldoc.Objects(content)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if _, labelled := o.GetLabels()[configmap.BundleLabel]; !labelled || o.GetKind() != "ConfigMap" {
			continue
		}
		var configMap corev1.ConfigMap
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &configMap); err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", o.GetName(), err)
		}
		configMaps = append(configMaps, configMap)
	}
	return configMaps, nil
}
