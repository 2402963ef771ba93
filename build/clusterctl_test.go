// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

// TestClusterctlMakesTheReleaseOfEachScenario runs Clusterctl on the files below in/ of
// each archive, with metadata.yaml if there is one, and compares with the files below out/, notes or error. UPDATE=1 rewrites them.
func TestClusterctlMakesTheReleaseOfEachScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/clusterctl/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive := txtar.Parse(readFile(t, file))
			got := &txtar.Archive{Comment: archive.Comment}
			var metadata []byte
			for _, f := range archive.Files {
				if f.Name == "metadata.yaml" {
					metadata = f.Data
				}
				if f.Name == "options.json" || f.Name == "metadata.yaml" || strings.HasPrefix(f.Name, "in/") {
					got.Files = append(got.Files, f)
				}
			}
			got.Files = append(got.Files, releaseFiles(t, archive, metadata)...)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Errorf("%s (-want +got; UPDATE=1 rewrites):\n%s", file, diff)
			}
		})
	}
}

func releaseFiles(t *testing.T, archive *txtar.Archive, metadata []byte) []txtar.File {
	t.Helper()
	dir := t.TempDir()
	writeArchive(t, dir, archive)
	options := optionsIn(t, archive)
	options.Dir = filepath.Join(dir, "in")
	release, err := build.Clusterctl(options, metadata)
	if err != nil {
		return []txtar.File{{Name: "error", Data: []byte(strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")}}
	}
	again, err := build.Clusterctl(options, metadata)
	if diff := cmp.Diff(release, again); diff != "" || err != nil {
		t.Errorf("the second run differs: %v\n%s", err, diff)
	}
	var files []txtar.File
	for _, name := range []string{"README.md", release.Dir[:strings.LastIndex(release.Dir, "/")], "metadata.yaml"} {
		for file, content := range release.Files {
			if file == name || name != "README.md" && name != "metadata.yaml" && strings.HasSuffix(file, "-components.yaml") {
				files = append(files, txtar.File{Name: "out/" + release.Dir + "/" + file, Data: content})
			}
		}
	}
	for _, note := range release.Notes {
		files = append(files, txtar.File{Name: "note", Data: []byte(note + "\n")})
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
