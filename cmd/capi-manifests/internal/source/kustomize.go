// SPDX-License-Identifier: Apache-2.0

package source

import (
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/extractor"
)

// KustomizationIn returns the kustomization.yaml of a directory; empty if there is none.
func KustomizationIn(source string) string {
	if kind, err := KindOf(source); err != nil || kind != Directory {
		return ""
	}
	return kustomize.FileIn(source)
}

// BundleIn returns the name of the file or directory that makes a directory a
// bundle, or the directory of several; empty if there is none.
func BundleIn(source string) string { return extractor.BundleIn(os.DirFS(source)) }

// FilesOf returns a function that lists the files which may define a field of an
// object that is rendered from src: the strategic merge patches of a kustomize
// directory, the outermost first, and the file of the object; none if the origin of
// the object is unknown. src may also be a YAML file.
func FilesOf(src string) (func(kind, name string) []string, error) {
	if kustomize.IsManifests(src) {
		return func(string, string) []string { return []string{src} }, nil
	}
	origins, err := kustomize.Origins(src)
	if err != nil {
		return nil, err
	}
	patches := patchesIn(src, map[string]bool{})
	return func(kind, name string) []string {
		origin, known := origins[kustomize.ObjectName{Kind: kind, Name: name}]
		if !known {
			return nil
		}
		return append(slices.Clip(patches), filepath.Join(src, origin))
	}, nil
}

// patchesIn returns the patch files of a kustomize directory and of the directories
// that it includes. It skips files that it cannot read, and directories that it has
// already visited.
func patchesIn(dir string, seen map[string]bool) (files []string) {
	content, err := os.ReadFile(kustomize.FileIn(dir))
	var kustomization types.Kustomization
	if err != nil || seen[dir] || yaml.Unmarshal(content, &kustomization) != nil {
		return nil
	}
	seen[dir] = true
	for _, patch := range kustomization.PatchesStrategicMerge { //nolint:staticcheck // providers still use it
		files = append(files, filepath.Join(dir, string(patch)))
	}
	for _, patch := range kustomization.Patches {
		if patch.Path != "" {
			files = append(files, filepath.Join(dir, patch.Path))
		}
	}
	for _, below := range slices.Concat(kustomization.Components, kustomization.Resources, kustomization.Bases) { //nolint:staticcheck // providers still use bases
		files = append(files, patchesIn(filepath.Join(dir, below), seen)...)
	}
	return files
}

// manifestsBelow describes the usual kustomize directory below a directory of a provider's repository, such as
// "config/default" in its root, or the file with components in a directory; empty if there is none.
func manifestsBelow(dir string) string {
	for _, below := range []string{"default", "config/default"} {
		if below = filepath.Join(dir, below); kustomize.FileIn(below) != "" {
			return "kustomize directory " + below
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*components.yaml")); err == nil && len(files) > 0 {
		return "file " + files[0]
	}
	return ""
}
