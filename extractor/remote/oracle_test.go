// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/registry"
)

// disk is the straightforward way: unpack everything, one layer upon the other,
// into a directory, with the real links of a real file system. What cannot
// be created becomes a named pipe, which nothing else makes.
type disk struct {
	root    string
	touched map[string]bool // by the layer that is being unpacked
}

func (d *disk) unpack(layers []registry.Layer) error {
	for _, layer := range layers {
		d.touched = map[string]bool{}
		for _, e := range layer.Entries {
			if err := d.entry(e); err != nil {
				return fmt.Errorf("%c %s -> %s: %w", e.Typeflag, e.Name, e.Linkname, err)
			}
		}
	}
	return nil
}

func (d *disk) entry(e registry.Entry) error {
	clean := path.Clean("/" + e.Name)
	base := path.Base(clean)
	if hidden, ok := strings.CutPrefix(base, ".wh."); ok {
		return d.whiteout(path.Dir(clean), hidden)
	}
	dir, err := d.mkdirs(path.Dir(clean))
	if err != nil {
		return err
	}
	at := filepath.Join(dir, base)
	d.touched[at] = true
	if info, err := os.Lstat(at); err == nil && info.IsDir() && e.Typeflag == tar.TypeDir {
		return nil
	}
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return d.create(at, e)
}

func (d *disk) create(at string, e registry.Entry) error {
	switch e.Typeflag {
	case tar.TypeDir:
		return os.Mkdir(at, 0o755)
	case tar.TypeReg:
		return os.WriteFile(at, []byte(e.Body), 0o644)
	case tar.TypeSymlink:
		return os.Symlink(e.Linkname, at)
	case tar.TypeLink:
		target := path.Clean("/" + e.Linkname)
		dir, err := d.resolve(path.Dir(target))
		if err == nil {
			err = os.Link(filepath.Join(dir, path.Base(target)), at)
		}
		if err == nil {
			return nil
		}
	}
	return syscall.Mkfifo(at, 0o600)
}

func (d *disk) whiteout(dir, hidden string) error {
	at, err := d.resolve(dir)
	if err != nil {
		return nil
	}
	if info, err := os.Lstat(at); err != nil || !info.IsDir() {
		return nil
	}
	if hidden != ".wh..opq" {
		return d.remove(filepath.Join(at, hidden))
	}
	return d.empty(at)
}

// remove removes what the layer did not touch at and below a path.
func (d *disk) remove(at string) error {
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := d.empty(at); err != nil {
			return err
		}
	}
	if d.touched[at] {
		return nil
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

func (d *disk) empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, d.remove(filepath.Join(dir, e.Name())))
	}
	return err
}

// mkdirs makes a directory of the image and returns where it is on the disk.
func (d *disk) mkdirs(dir string) (string, error) {
	at, seen := d.root, "/"
	for _, name := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' }) {
		seen = path.Join(seen, name)
		next, err := d.resolve(seen)
		if info, statErr := os.Lstat(next); err == nil && statErr == nil && info.IsDir() {
			at = next
			continue
		}
		at = filepath.Join(at, name)
		d.touched[at] = true
		if err := errors.Join(os.RemoveAll(at), os.Mkdir(at, 0o755)); err != nil {
			return "", err
		}
	}
	return at, nil
}

// resolve returns where a path of the image is on the disk, with all symlinks followed inside the image.
func (d *disk) resolve(name string) (string, error) {
	real, rest := "/", name
	for links := 0; rest != ""; {
		if info, err := os.Lstat(filepath.Join(d.root, real)); err != nil || !info.IsDir() {
			return "", fmt.Errorf("%s is no directory", real)
		}
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		next := path.Join(real, part)
		info, err := os.Lstat(filepath.Join(d.root, next))
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > 40 {
			return "", errors.New("too many symlinks")
		}
		target, err := os.Readlink(filepath.Join(d.root, next))
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			real = "/"
		}
		rest = target + "/" + rest
		rest = strings.TrimSuffix(rest, "/")
	}
	return filepath.Join(d.root, real), nil
}

// answer is what the disk shows at the roots of bundles.
func (d *disk) answer() (extractor.Files, error) {
	files := extractor.Files{}
	for _, root := range extractor.Roots() {
		if _, err := os.Lstat(filepath.Join(d.root, root)); err != nil {
			continue
		}
		if err := d.walk(files, root, nil); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (d *disk) walk(files extractor.Files, name string, above []string) error {
	real, err := d.resolve(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	info, err := os.Lstat(real)
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return d.read(files, name, real)
	case !info.IsDir():
		return fmt.Errorf("%s: %s", name, info.Mode())
	case slices.Contains(above, real):
		return fmt.Errorf("%s: endless", name)
	}
	files[name+"/"] = nil
	entries, err := os.ReadDir(real)
	for _, e := range entries {
		err = errors.Join(err, d.walk(files, name+"/"+e.Name(), append(slices.Clone(above), real)))
	}
	return err
}

func (d *disk) read(files extractor.Files, name, real string) error {
	if extractor.Limit(name) == 0 {
		files[name] = []byte{}
		return nil
	}
	file, err := os.Open(real)
	if err != nil {
		return err
	}
	defer file.Close()
	files[name], err = io.ReadAll(io.LimitReader(file, extractor.Limit(name)+1))
	return err
}

// layerStacks draws layers that are full of coincidences.
func layerStacks() *rapid.Generator[[]registry.Layer] {
	part := rapid.SampledFrom([]string{"capi-manifests", "capi-operator-manifests", "a", "b", "metadata.json", "manifests.yaml", "metadata.yaml"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "/")
	})
	target := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "/", "../", "./", "../../", "a/../"}).Draw(t, "from") + name.Draw(t, "target")
	})
	entry := rapid.Custom(func(t *rapid.T) registry.Entry {
		at := name.Draw(t, "name")
		switch rapid.SampledFrom([]string{"file", "file", "file", "dir", "dir", "symlink", "symlink", "hardlink", "whiteout", "opaque", "pipe"}).Draw(t, "type") {
		case "dir":
			return registry.Dir(at)
		case "symlink":
			return registry.Symlink(at, target.Draw(t, "target"))
		case "hardlink":
			return registry.Hardlink(at, name.Draw(t, "target"))
		case "whiteout":
			return registry.Whiteout(at)
		case "opaque":
			return registry.Opaque(rapid.SampledFrom([]string{at, ""}).Draw(t, "dir"))
		case "pipe":
			return registry.Entry{Header: tar.Header{Typeflag: tar.TypeFifo, Name: at}}
		}
		return registry.File(rapid.SampledFrom([]string{"", "/", "./"}).Draw(t, "root")+at, rapid.StringN(0, 8, -1).Draw(t, "body"))
	})
	layer := rapid.Custom(func(t *rapid.T) registry.Layer {
		return registry.Layer{
			Entries:     rapid.SliceOfN(entry, 0, 8).Draw(t, "entries"),
			Compression: rapid.SampledFrom([]registry.Compression{registry.Gzip, registry.Zstd, registry.None}).Draw(t, "compression"),
		}
	})
	return rapid.SliceOfN(layer, 1, 5)
}

func TestTheAnswerIsWhatAFullUnpackShows(t *testing.T) {
	stacks, refused, found := 0, 0, 0
	scratch := t.TempDir()
	compare := func(t *rapid.T) {
		layers := layerStacks().Draw(t, "layers")
		root, err := os.MkdirTemp(scratch, "")
		if err != nil {
			t.Fatal(err)
		}
		d := &disk{root: root}
		if err := d.unpack(layers); err != nil {
			t.Fatalf("the oracle cannot unpack: %v", err)
		}
		image, err := registry.Image(layers...)
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := d.answer()
		got, gotErr := filesOf(t.Context(), image, Limits{})
		stacks++
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("got the error %v, want %v", gotErr, wantErr)
		}
		if wantErr != nil {
			refused++
			return
		}
		if len(want) > 0 {
			found++
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-unpacked +got):\n%s", diff)
		}
	}
	for range 5 {
		rapid.Check(t, compare)
	}
	t.Logf("%d stacks of layers: %d with files, %d refused by both, %d empty", stacks, found, refused, stacks-found-refused)
	if stacks < 300 || found < stacks/10 || refused < stacks/20 {
		t.Error("the stacks do not tell enough")
	}
}
