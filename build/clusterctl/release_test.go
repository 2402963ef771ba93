// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestRelease_Scenarios runs New on the files below in/ of each archive, with
// metadata.yaml if there is one, and compares the result with the files below out/,
// notes or error.
func TestRelease_Scenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", scenario.Only("options.json", "metadata.yaml", "in/"), releaseFiles)
}

func releaseFiles(t *testing.T, archive *scenario.Archive) []scenario.File {
	var metadata []byte
	for _, file := range archive.Files {
		if file.Name == "metadata.yaml" {
			metadata = file.Data
		}
	}
	dir := t.TempDir()
	if err := txtar.Write(inputsOf(archive), dir); err != nil {
		t.Fatal(err)
	}
	options := optionsIn(t, archive)
	options.Dir = filepath.Join(dir, "in")
	release, err := clusterctl.New(options, metadata)
	if err != nil {
		return []scenario.File{{Name: "error", Data: []byte(strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")}}
	}
	again, err := clusterctl.New(options, metadata)
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

func TestRelease_RejectsInvalidOptions(t *testing.T) {
	_, err := clusterctl.New(generate.Options{Dir: "nowhere", ProviderType: extractor.Core}, nil)
	var optionsError *transform.OptionsError
	if !errors.As(err, &optionsError) {
		t.Errorf("got %v", err)
	}
}

// optionsIn reads options.json of a scenario.
func optionsIn(t *testing.T, archive *scenario.Archive) generate.Options {
	t.Helper()
	options := generate.Options{
		ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.2.3",
		Options: transform.Options{ImageName: "registry.example.com/openshift:demo"},
	}
	scenario.ReadOptions(t, archive, &options)
	return options
}

// inputsOf returns the files of an archive that are inputs; notes repeat a name.
func inputsOf(archive *scenario.Archive) *scenario.Archive {
	return &scenario.Archive{Files: slices.DeleteFunc(slices.Clone(archive.Files), func(f scenario.File) bool { return f.Name == "note" })}
}
