// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestClusterctlMakesTheReleaseOfEachScenario runs Clusterctl on the files below in/ of
// each archive, with metadata.yaml if there is one, and compares with the files below out/, notes or error.
func TestClusterctlMakesTheReleaseOfEachScenario(t *testing.T) {
	scenario.Run(t, "testdata/clusterctl/*.txtar", scenario.Only("options.json", "metadata.yaml", "in/"), releaseFiles)
}

func releaseFiles(t *testing.T, archive *scenario.Archive) []scenario.File {
	var metadata []byte
	for _, file := range archive.Files {
		if file.Name == "metadata.yaml" {
			metadata = file.Data
		}
	}
	dir := t.TempDir()
	writeArchive(t, dir, archive)
	options := optionsIn(t, archive)
	options.Dir = filepath.Join(dir, "in")
	release, err := build.Clusterctl(options, metadata)
	if err != nil {
		return []scenario.File{{Name: "error", Data: []byte(strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")}}
	}
	again, err := build.Clusterctl(options, metadata)
	if diff := cmp.Diff(release, again); diff != "" || err != nil {
		t.Errorf("the second run differs: %v\n%s", err, diff)
	}
	var files []scenario.File
	for _, name := range []string{"README.md", release.Dir[:strings.LastIndex(release.Dir, "/")], "metadata.yaml"} {
		for file, content := range release.Files {
			if file == name || name != "README.md" && name != "metadata.yaml" && strings.HasSuffix(file, "-components.yaml") {
				files = append(files, scenario.File{Name: "out/" + release.Dir + "/" + file, Data: content})
			}
		}
	}
	for _, note := range release.Notes {
		files = append(files, scenario.File{Name: "note", Data: []byte(note + "\n")})
	}
	return files
}

func TestClusterctlRefusesOptionsBeforeItReadsAnything(t *testing.T) {
	_, err := build.Clusterctl(build.GenerateOptions{Dir: "nowhere", ProviderType: extractor.Core}, nil)
	var optionsError *build.OptionsError
	if !errors.As(err, &optionsError) {
		t.Errorf("got %v", err)
	}
}
