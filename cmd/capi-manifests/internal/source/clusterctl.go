// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// releasesIn are the releases for clusterctl in a directory: "." if it is one, or, in a
// repository, the "<provider label>/<version>" of each. In any other source there are none.
func releasesIn(source string) (found []string) {
	if kind, err := kindOf(source); err != nil || kind != isDirectory || build.KustomizationIn(source) != "" {
		return nil
	}
	for _, root := range append(extractor.Roots(), "metadata.json") {
		if _, err := os.Stat(filepath.Join(source, root)); err == nil {
			return nil // a bundle, or an image's root
		}
	}
	below, _ := fs.Glob(os.DirFS(source), "*/*") // the pattern is a good one
	for _, dir := range append([]string{"."}, below...) {
		if holdsRelease(source, dir) {
			found = append(found, dir)
		}
		if dir == "." && len(found) > 0 {
			break // what is below belongs to it
		}
	}
	return found
}

// holdsRelease says whether a directory is where clusterctl looks for a release, or holds components wherever it is.
func holdsRelease(source, dir string) bool {
	components, _ := fs.Glob(os.DirFS(filepath.Join(source, dir)), "*-components.yaml") // the pattern is a good one
	return len(components) > 0 || repositoryPath(filepath.Join(source, dir)) != ""
}

// repositoryPath is the "<provider label>/<version>" that a path ends in; empty if it ends in something else.
func repositoryPath(dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	label, number := filepath.Base(filepath.Dir(absolute)), filepath.Base(absolute)
	if _, err := utilversion.ParseSemantic(number); err != nil || contract.TypeOfLabel(label) == "" {
		return ""
	}
	return label + "/" + number
}

// validateReleases checks releases for clusterctl in a directory.
func validateReleases(source string, dirs []string) (validation, error) {
	result := validation{Schema: validationSchema, Source: source, Bundles: []validatedBundle{}}
	for _, dir := range dirs {
		release, err := readRelease(source, dir)
		if err != nil {
			return validation{}, err
		}
		provider, findings := contract.CheckRelease(release)
		for i := range findings {
			findings[i].File = filepath.Join(source, dir, findings[i].File)
			result.invalid = result.invalid || findings[i].Rule == contract.RuleOfYAML // clusterctl could not read it either
		}
		about := metadataOf(provider)
		result.Bundles = append(result.Bundles, validatedBundle{Release: dir, Metadata: &about, Findings: append([]contract.Finding{}, findings...)})
	}
	result.count()
	return result, nil
}

// onReleases refuses the flags that mean nothing for releases.
func (o *validateOptions) onReleases(cmd *cobra.Command, source string) error {
	var errs []error
	if given := o.kustomize.provider.given(); len(given) > 0 {
		errs = append(errs, onlyForKustomize(given, source))
	}
	if o.against.server != "" {
		errs = append(errs, fmt.Errorf("--against: only for bundles; %s holds releases for clusterctl, which puts them into a cluster", source))
	}
	if err := errors.Join(errs...); err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	return nil
}

// readRelease reads the YAML files of a release.
func readRelease(source, dir string) (contract.Release, error) {
	release := contract.Release{Dir: dir, Files: map[string][]byte{}}
	if dir == "." {
		release.Dir = repositoryPath(source)
	}
	entries, err := os.ReadDir(filepath.Join(source, dir))
	if err != nil {
		return release, err
	}
	for _, entry := range entries {
		file := filepath.Join(source, dir, entry.Name())
		if ending := path.Ext(file); ending != ".yaml" && ending != ".yml" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return release, err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if info.Size() > extractor.MaxManifests {
			return release, &invalidError{fmt.Errorf("reading %s: it has %d bytes, more than %d", file, info.Size(), extractor.MaxManifests)}
		}
		if release.Files[entry.Name()], err = os.ReadFile(file); err != nil {
			return release, err
		}
	}
	return release, nil
}

// rules are those that a validated provider is checked by, without those that an API server has to be asked for.
func (b validatedBundle) rules() []contract.Rule {
	if b.Release != "" {
		return contract.RulesOf(contract.FormRelease)
	}
	return contract.RulesOf(contract.FormBundle)
}
