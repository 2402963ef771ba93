// SPDX-License-Identifier: Apache-2.0

package ocilayout_test

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
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/capi-installer/capi-installer/internal/lazyimage"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/test/registry"
)

func testImage(t *testing.T) v1.Image {
	t.Helper()
	return registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File("data", "hello")}})
}

// A directory and an archive both return the image or the index that was written.
func TestWrite_ReadReturnsTheEntry(t *testing.T) {
	image := testImage(t)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})
	write := map[string]func(string, mutate.Appendable) error{
		"directory": func(path string, e mutate.Appendable) error {
			return ocilayout.Write(t.Context(), path, e, "example.com/a:v1")
		},
		"archive": func(path string, e mutate.Appendable) error {
			return ocilayout.WriteArchive(t.Context(), path, e, "example.com/a:v1")
		},
	}
	for form, write := range write {
		for kind, entry := range map[string]mutate.Appendable{"image": image, "index": index} {
			t.Run(form+"/"+kind, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "layout")
				if err := write(path, entry); err != nil {
					t.Fatal(err)
				}
				got, err := ocilayout.Read(path)
				if err != nil {
					t.Fatal(err)
				}
				want, _ := entry.Digest()
				if digest, err := got.Digest(); err != nil || digest != want {
					t.Errorf("digest %v (%v), want %v", digest, err, want)
				}
				if err := validateEntry(got); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func validateEntry(entry mutate.Appendable) error {
	if index, ok := entry.(v1.ImageIndex); ok {
		return validate.Index(index)
	}
	return validate.Image(entry.(v1.Image))
}

func TestWrite_RecordsTheReferenceName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	if err := ocilayout.Write(t.Context(), dir, testImage(t), "example.com/a:v1"); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil || !strings.Contains(string(index), `"org.opencontainers.image.ref.name": "example.com/a:v1"`) {
		t.Errorf("index.json is %s (%v)", index, err)
	}
}

func TestWrite_RejectsADirectoryWithOtherFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := ocilayout.Write(t.Context(), dir, testImage(t), "")
	if err == nil || !strings.Contains(err.Error(), "not an OCI layout") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the directory contains %v", entries)
	}
}

func TestWriteArchive_SameBytesEachTime(t *testing.T) {
	var contents [][]byte
	file := filepath.Join(t.TempDir(), "a.tar")
	for range 2 {
		if err := ocilayout.WriteArchive(t.Context(), file, testImage(t), ""); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, content)
	}
	if !bytes.Equal(contents[0], contents[1]) {
		t.Error("two archives of the same image differ")
	}
}

// layoutFiles are the files of a layout by name, and the names of some of them.
type layoutFiles struct {
	content          map[string][]byte
	manifest, config string
}

func filesOf(t *testing.T, image v1.Image) layoutFiles {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	err := ocilayout.Write(t.Context(), dir, image, "")
	digest, digestErr := image.Digest()
	manifest, manifestErr := image.Manifest()
	if err := errors.Join(err, digestErr, manifestErr); err != nil {
		t.Fatal(err)
	}
	files := layoutFiles{content: map[string][]byte{}, manifest: "blobs/sha256/" + digest.Hex, config: "blobs/sha256/" + manifest.Config.Digest.Hex}
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

func flip(content []byte) []byte {
	return append(slices.Clone(content[:len(content)-1]), content[len(content)-1]^1)
}

// corruptions are applied to a directory and to an archive.
var corruptions = map[string]struct {
	change func(*layoutFiles)
	want   string
}{
	"changed manifest": {func(f *layoutFiles) { f.content[f.manifest] = flip(f.content[f.manifest]) }, "content has digest sha256:"},
	"changed config":   {func(f *layoutFiles) { f.content[f.config] = flip(f.content[f.config]) }, "content has digest sha256:"},
	"missing manifest": {func(f *layoutFiles) { delete(f.content, f.manifest) }, "not found in the "},
	"malformed index":  {func(f *layoutFiles) { f.content["index.json"] = []byte("{") }, "parsing index.json"},
	"large index":      {func(f *layoutFiles) { f.content["index.json"] = make([]byte, 4<<20+1) }, "index.json exceeds the size limit: 4194305 bytes"},
	"two entries": {func(f *layoutFiles) {
		f.content["index.json"] = []byte(`{"manifests": [{"digest": "sha256:` + strings.Repeat("a", 64) + `"}, {"digest": "sha256:` + strings.Repeat("b", 64) + `"}]}`)
	}, "invalid index.json: 2 entries, want 1"},
	"entry of another media type": {func(f *layoutFiles) {
		f.content["index.json"] = bytes.Replace(f.content["index.json"], []byte("vnd.oci.image.manifest.v1+json"), []byte("vnd.example.v1+json"), 1)
		f.content["index.json"] = bytes.Replace(f.content["index.json"], []byte("vnd.docker.distribution.manifest.v2+json"), []byte("vnd.example.v1+json"), 1)
	}, "media type \"application/vnd.example.v1+json\", want an image or an image index"},
	"empty index": {func(f *layoutFiles) { f.content["index.json"] = []byte(`{"manifests": []}`) }, "invalid index.json: 0 entries, want 1"},
}

func TestRead_RejectsACorruptDirectory(t *testing.T) {
	for name, damage := range corruptions {
		t.Run(name, func(t *testing.T) {
			files := filesOf(t, testImage(t))
			damage.change(&files)
			dir := t.TempDir()
			for name, content := range files.content {
				path := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			checkInvalid(t, dir, damage.want)
		})
	}
}

// checkInvalid reads an image completely and compares the error.
func checkInvalid(t *testing.T, path, want string) {
	t.Helper()
	entry, err := ocilayout.Read(path)
	if err == nil {
		_, err = entry.(v1.Image).ConfigFile()
	}
	if _, ok := errors.AsType[*lazyimage.InvalidError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an InvalidError with %q", err, want)
	}
}

func writeTar(t *testing.T, files map[string][]byte, further func(*tar.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if further != nil {
		if err := further(w); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// cut removes the end of an archive: the padding, and a part of the last file.
func cut(archive []byte) []byte { return archive[:len(archive)-1500] }

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.tar")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead_RejectsACorruptArchive(t *testing.T) {
	for name, damage := range corruptions {
		t.Run(name, func(t *testing.T) {
			files := filesOf(t, testImage(t))
			damage.change(&files)
			checkInvalid(t, writeFile(t, writeTar(t, files.content, nil)), damage.want)
		})
	}
	whole := func(further func(*tar.Writer) error) []byte {
		return writeTar(t, filesOf(t, testImage(t)).content, further)
	}
	for name, test := range map[string]struct {
		archive []byte
		want    string
	}{
		"duplicate entry": {whole(func(w *tar.Writer) error {
			return w.WriteHeader(&tar.Header{Name: "./index.json", Typeflag: tar.TypeReg})
		}), `duplicate archive entry "index.json"`},
		"too many entries": {whole(func(w *tar.Writer) error {
			var errs []error
			for n := range 10_000 {
				errs = append(errs, w.WriteHeader(&tar.Header{Name: fmt.Sprint("x/", n), Typeflag: tar.TypeReg}))
			}
			return errors.Join(errs...)
		}), "limit of 10000 entries"},
		"truncated": {cut(whole(nil)), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) { checkInvalid(t, writeFile(t, test.archive), test.want) })
	}
}

func TestRead_OtherFilesAreErrNotLayout(t *testing.T) {
	files := filesOf(t, testImage(t)).content
	outside := map[string][]byte{"../index.json": files["index.json"]}
	link := func(w *tar.Writer) error {
		return w.WriteHeader(&tar.Header{Name: "index.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
	}
	for name, content := range map[string][]byte{
		"text": []byte("hello"), "index outside": writeTar(t, outside, nil), "index is a link": writeTar(t, nil, link),
	} {
		if _, err := ocilayout.Read(writeFile(t, content)); !errors.Is(err, ocilayout.ErrNotLayout) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Opening a named pipe would wait for a writer.
func TestRead_RejectsANamedPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "index.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkInvalid(t, dir, "index.json is not a regular file")
	if _, err := ocilayout.Read(filepath.Join(dir, "index.json")); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
