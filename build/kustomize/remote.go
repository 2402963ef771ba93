// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
)

// RemoteError reports an entry of a kustomization that kustomize would fetch over HTTP or with git.
type RemoteError struct {
	// File is the kustomization file, Resource its entry.
	File, Resource string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("%s: remote resource %s is not supported: add a copy of it to the directory, for example with git or curl, and refer to the copy", e.File, e.Resource)
}

// remoteIn returns the first entry of a kustomization file that kustomize would fetch; empty if there is none. An invalid file has no
// entries: kustomize reports it.
func remoteIn(content []byte) string {
	k := &types.Kustomization{}
	if k.Unmarshal(content) != nil {
		return ""
	}
	k.FixKustomization() // former names of fields
	bases := slices.Concat(k.Resources, k.Components, k.Generators, k.Transformers, k.Validators)
	if at := slices.IndexFunc(bases, func(entry string) bool {
		return !strings.Contains(entry, "\n") && (isURL(entry) || isRepository(entry))
	}); at >= 0 {
		return bases[at]
	}
	files := append(slices.Concat(k.Crds, k.Configurations), k.OpenAPI["path"])
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {
		files = append(files, patch.Path)
	}
	for _, patch := range k.PatchesStrategicMerge {
		files = append(files, string(patch))
	}
	for _, replacement := range k.Replacements {
		files = append(files, replacement.Path)
	}
	var sources []types.KvPairSources
	for _, generator := range k.ConfigMapGenerator {
		sources = append(sources, generator.KvPairSources)
	}
	for _, generator := range k.SecretGenerator {
		sources = append(sources, generator.KvPairSources)
	}
	for _, source := range sources {
		for _, file := range slices.Concat(source.FileSources, source.EnvSources, []string{source.EnvSource}) {
			_, path, found := strings.Cut(file, "=") // KEY=PATH, or a path
			if files = append(files, file); found {
				files = append(files, path)
			}
		}
	}
	if at := slices.IndexFunc(files, isURL); at >= 0 {
		return files[at]
	}
	return ""
}

// isURL reports whether kustomize loads a file over HTTP.
func isURL(path string) bool {
	u, err := url.Parse(path)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// isRepository reports whether kustomize takes a path for the address of a git repository. Its parser decides.
func isRepository(path string) bool { return (&resource.Origin{}).Append(path).Repo != "" }
