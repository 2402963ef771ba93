// SPDX-License-Identifier: Apache-2.0

package extractor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/extractor"
)

var origin = extractor.Origin{Name: "aws-cluster-api-controllers", Image: "quay.io/example/capa@sha256:" + strings.Repeat("a", 64)}

// Each archive is an image's files and what Bundles says about them, in a file
// named want. UPDATE=1 writes want anew.
func TestBundles(t *testing.T) {
	archives, err := filepath.Glob("testdata/bundles/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range archives {
		sentence := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".txtar"), "-", " ")
		t.Run(sentence, func(t *testing.T) {
			archive, files, want := readArchive(t, file)
			bundles, err := files.Bundles(origin)
			if err != nil && !errors.Is(err, extractor.ErrInvalid) {
				t.Errorf("%v is no ErrInvalid", err)
			}
			got := describe(bundles, err)
			if os.Getenv("UPDATE") != "" {
				update(t, file, archive, got)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func readArchive(t *testing.T, file string) (archive *txtar.Archive, files extractor.Files, want string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files = extractor.Files{}
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = string(f.Data)
			continue
		}
		files[f.Name] = f.Data
	}
	return archive, files, want
}

func update(t *testing.T, file string, archive *txtar.Archive, got string) {
	t.Helper()
	files := archive.Files[:0]
	for _, f := range archive.Files {
		if f.Name != "want" {
			files = append(files, f)
		}
	}
	archive.Files = append(files, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// describe says what Bundles returned, without the image, which is always the same.
func describe(bundles []extractor.Bundle, err error) string {
	var out strings.Builder
	if err != nil {
		fmt.Fprintln(&out, "error")
		fmt.Fprintln(&out, strings.ReplaceAll(err.Error(), origin.Image, "IMAGE"))
	}
	fmt.Fprintln(&out, len(bundles), "bundles")
	for _, b := range bundles {
		m := b.Metadata
		fmt.Fprintf(&out, "profile %q name %s type %s version %s platform %q order %d placeholder %q\n",
			b.Profile, m.ProviderName, m.ProviderType, m.ProviderVersion, m.OCPPlatform, m.InstallOrder, m.ImageName)
		fmt.Fprintf(&out, "  %s, %d bytes, verified %t, from %s\n",
			m.ContentID, len(b.Manifests), m.ContentID == digest.FromBytes(b.Manifests), b.Origin.Name)
	}
	return out.String()
}
