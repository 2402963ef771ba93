// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/capi-installer/capi-installer/test/registry"
)

// ociFiles are the files of an OCI layout by their names, with the names of some of them.
type ociFiles struct {
	content         map[string][]byte
	manifest, layer string
}

func ociFilesOf(t *testing.T, image v1.Image) ociFiles {
	t.Helper()
	dir := t.TempDir()
	at, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = at.AppendImage(image)
	}
	files := ociFiles{content: map[string][]byte{}}
	digest, digestErr := image.Digest()
	manifest, manifestErr := image.Manifest()
	if err := errors.Join(err, digestErr, manifestErr); err != nil {
		t.Fatal(err)
	}
	files.manifest, files.layer = blobEntry(digest), blobEntry(manifest.Layers[0].Digest)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files.content[name], err = os.ReadFile(filepath.Join(dir, name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// add writes files to an archive, sorted by their names.
func addFiles(archive *tar.Writer, files map[string][]byte) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		errs = append(errs, archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[name]))}))
		_, err := archive.Write(files[name])
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func TestAHostileOCIArchiveIsRefusedByName(t *testing.T) {
	spoil := func(content []byte) []byte {
		return append(slices.Clone(content[:len(content)-1]), content[len(content)-1]^1)
	}
	for name, test := range map[string]struct {
		change func(*ociFiles)
		also   func(*tar.Writer) error
		cut    bool
		says   string
	}{
		"another manifest":    {change: func(f *ociFiles) { f.content[f.manifest] = spoil(f.content[f.manifest]) }, says: "has the digest sha256:"},
		"another layer":       {change: func(f *ociFiles) { f.content[f.layer] = spoil(f.content[f.layer]) }, says: "has the digest sha256:"},
		"a longer layer":      {change: func(f *ociFiles) { f.content[f.layer] = append(f.content[f.layer], 0) }, says: "has the digest sha256:"},
		"no layer":            {change: func(f *ociFiles) { delete(f.content, f.layer) }, says: "the archive has no blobs/sha256/"},
		"an index of no JSON": {change: func(f *ociFiles) { f.content["index.json"] = []byte("{") }, says: "parsing index.json"},
		"a large index":       {change: func(f *ociFiles) { f.content["index.json"] = make([]byte, archiveMetadata+1) }, says: "index.json has 4194305 bytes"},
		"an empty index":      {change: func(f *ociFiles) { f.content["index.json"] = []byte(`{"manifests": []}`) }, says: "0 entries in index.json"},
		"two entries of one name": {also: func(archive *tar.Writer) error {
			return addFiles(archive, map[string][]byte{"./index.json": []byte("{}")})
		}, says: `two entries "index.json"`},
		"too many entries": {also: func(archive *tar.Writer) error {
			var errs []error
			for n := range archiveEntries {
				errs = append(errs, archive.WriteHeader(&tar.Header{Name: fmt.Sprint("x/", n), Typeflag: tar.TypeReg, Mode: 0o600}))
			}
			return errors.Join(errs...)
		}, says: "more than 10000 entries"},
		"an end too early": {cut: true, says: "unexpected EOF"},
		"an index that is a link": {change: func(f *ociFiles) { delete(f.content, "index.json") }, also: func(archive *tar.Writer) error {
			return archive.WriteHeader(&tar.Header{Name: "index.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
		}, says: "no archive with a single image"},
		"names that lead out of it": {change: func(f *ociFiles) {
			f.content["../index.json"] = f.content["index.json"]
			delete(f.content, "index.json")
		}, says: "no archive with a single image"},
	} {
		t.Run(name, func(t *testing.T) {
			files := ociFilesOf(t, registry.MustImage(t, shipped(t)))
			if test.change != nil {
				test.change(&files)
			}
			var buffer bytes.Buffer
			archive := tar.NewWriter(&buffer)
			err := addFiles(archive, files.content)
			if test.also != nil {
				err = errors.Join(err, test.also(archive))
			}
			if err := errors.Join(err, archive.Close()); err != nil {
				t.Fatal(err)
			}
			content := buffer.Bytes()
			if test.cut {
				content = content[:len(content)-1500]
			}
			path := filepath.Join(t.TempDir(), "hostile.tar")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			code := run(t.Context(), []string{"inspect", path}, strings.NewReader(""), &stdout, &stderr)
			if code != exitInvalid || stdout.Len() > 0 || !strings.Contains(stderr.String(), "hostile.tar") || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d, stdout %q, stderr %s", code, &stdout, &stderr)
			}
		})
	}
}
