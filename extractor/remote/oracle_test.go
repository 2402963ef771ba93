// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/go-digest"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/registry"
)

// unpacked is a layer in a directory of its own, as container runtimes unpack
// it, with the real links of a real file system. What is there and no part of a
// bundle becomes a socket, which nothing else makes.
type unpacked struct {
	root      string
	whiteouts []string
	opaques   []string
	refused   map[string]bool // where no unpacker should let an entry go
}

// unpack unpacks the layer.
func (u *unpacked) unpack(layer registry.Layer) error {
	for _, e := range layer.Entries {
		if err := u.entry(e); err != nil {
			return fmt.Errorf("%c %s -> %s: %w", e.Typeflag, e.Name, e.Linkname, err)
		}
	}
	return nil
}

func (u *unpacked) entry(e registry.Entry) error {
	clean := path.Clean("/" + e.Name)
	dir, err := u.resolve(path.Dir(clean))
	if err != nil {
		return nil // it leads nowhere
	}
	if dir != path.Dir(clean) || slices.Contains(strings.Split(e.Name, "/"), "..") {
		u.refuse(path.Join(dir, path.Base(clean)))
		return nil
	}
	if ok, err := u.mkdirs(dir); !ok || err != nil {
		return err
	}
	at := filepath.Join(u.root, clean)
	if hidden, ok := strings.CutPrefix(path.Base(clean), ".wh."); ok {
		if hidden == ".wh..opq" {
			u.opaques = append(u.opaques, dir)
			return nil
		}
		u.whiteouts = append(u.whiteouts, path.Join(dir, hidden))
		return nil
	}
	info, err := os.Lstat(at)
	if err == nil && info.IsDir() && e.Typeflag == tar.TypeDir {
		return nil
	}
	if e.Typeflag == tar.TypeLink {
		return u.hardlink(at, clean, path.Clean("/"+e.Linkname))
	}
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return create(at, e)
}

// refuse notes where an entry would do harm: at a root of bundles, or below one.
func (u *unpacked) refuse(clean string) {
	first, _, _ := strings.Cut(strings.TrimPrefix(clean, "/"), "/")
	if slices.Contains(extractor.Roots(), first) {
		u.refused[clean] = true
	}
}

func create(at string, e registry.Entry) error {
	switch e.Typeflag {
	case tar.TypeDir:
		return os.Mkdir(at, 0o755)
	case tar.TypeReg:
		return os.WriteFile(at, []byte(e.Body), 0o644)
	case tar.TypeSymlink:
		return os.Symlink(e.Linkname, at)
	}
	return syscall.Mknod(at, syscall.S_IFSOCK|0o600, 0)
}

// hardlink links to a file of a bundle, or of no bundle if nobody reads it there.
func (u *unpacked) hardlink(at, clean, target string) error {
	to := filepath.Join(u.root, target)
	info, err := os.Lstat(to)
	link := err == nil && info.Mode().IsRegular() && clean != target && !strings.HasPrefix(target, clean+"/") && isIn(target) &&
		(extractor.Limit(clean[1:]) == 0 || extractor.Limit(target[1:]) > 0)
	if link {
		if err := os.Link(to, to+".kept"); err != nil {
			return err
		}
		defer os.Remove(to + ".kept")
	}
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	if link {
		return os.Rename(to+".kept", at)
	}
	return syscall.Mknod(at, syscall.S_IFSOCK|0o600, 0)
}

func isIn(clean string) bool {
	first, _, _ := strings.Cut(clean[1:], "/")
	return slices.Contains(extractor.Roots(), first)
}

// mkdirs makes a directory, unless something else is in its way.
func (u *unpacked) mkdirs(dir string) (bool, error) {
	at := "/"
	for _, name := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' }) {
		at = path.Join(at, name)
		info, err := os.Lstat(filepath.Join(u.root, at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.Mkdir(filepath.Join(u.root, at), 0o755); err != nil {
				return false, err
			}
		case err != nil:
			return false, err
		case info.Mode().IsRegular() && isIn(at):
			u.refuse(at)
			return false, nil
		case info.Mode().IsRegular():
			// Who unpacks this gives up or replaces the file. Bundles lie elsewhere.
			if err := errors.Join(os.Remove(filepath.Join(u.root, at)), os.Mkdir(filepath.Join(u.root, at), 0o755)); err != nil {
				return false, err
			}
		case !info.IsDir():
			return false, nil
		}
	}
	return true, nil
}

// resolve returns the path of a directory without symlinks of this layer; what does not exist is taken as it is.
func (u *unpacked) resolve(name string) (string, error) {
	real, rest := "/", name
	for links := 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		next := path.Join(real, part)
		target, err := os.Readlink(filepath.Join(u.root, next))
		if err != nil {
			real = next
			continue
		}
		if links++; links > 40 {
			return "", errors.New("too many symlinks")
		}
		if path.IsAbs(target) {
			real = "/"
		}
		rest = strings.TrimSuffix(target+"/"+rest, "/")
	}
	return real, nil
}

// disk is layers laid one upon the other, from the bottom to the top.
type disk struct {
	root    string
	refused map[string]bool
}

// lay lays a layer upon what there is.
func (d *disk) lay(u *unpacked) error {
	for _, dir := range u.opaques {
		if err := d.empty(dir); err != nil {
			return err
		}
	}
	for _, hidden := range u.whiteouts {
		if err := d.remove(hidden); err != nil {
			return err
		}
	}
	if err := d.merge(u, "/"); err != nil {
		return err
	}
	maps.Copy(d.refused, u.refused)
	return nil
}

func (d *disk) remove(at string) error {
	maps.DeleteFunc(d.refused, func(file string, _ bool) bool { return file == at || strings.HasPrefix(file, at+"/") })
	if !d.isDir(path.Dir(at)) {
		return nil
	}
	return os.RemoveAll(filepath.Join(d.root, at))
}

// isDir says whether there is a directory, without any symlink on the way.
func (d *disk) isDir(dir string) bool {
	if dir != "/" && !d.isDir(path.Dir(dir)) {
		return false
	}
	info, err := os.Lstat(filepath.Join(d.root, dir))
	return err == nil && info.IsDir()
}

func (d *disk) empty(dir string) error {
	maps.DeleteFunc(d.refused, func(file string, _ bool) bool {
		return strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
	})
	if !d.isDir(dir) {
		return nil // it has no content
	}
	entries, err := os.ReadDir(filepath.Join(d.root, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.root, dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// merge lays a directory of a layer upon that of the same path.
func (d *disk) merge(u *unpacked, dir string) error {
	entries, err := os.ReadDir(filepath.Join(u.root, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		over := filepath.Join(d.root, at)
		if e.IsDir() {
			err = d.mkdir(at)
			if err == nil {
				err = d.merge(u, at)
			}
		} else {
			err = d.remove(at)
			if err == nil {
				err = os.Link(filepath.Join(u.root, at), over) // of symlinks too
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mkdir makes at a directory if it is none.
func (d *disk) mkdir(at string) error {
	delete(d.refused, at)
	over := filepath.Join(d.root, at)
	if info, err := os.Lstat(over); err == nil && info.IsDir() {
		return nil
	}
	return errors.Join(os.RemoveAll(over), os.Mkdir(over, 0o755))
}

// answer is what the disk shows at the roots of bundles, of which the first that is there counts.
func (d *disk) answer() (files extractor.Files, wrong error, err error) {
	files = extractor.Files{}
	counts := ""
	for _, root := range extractor.Roots() {
		_, statErr := os.Lstat(filepath.Join(d.root, root))
		there := statErr == nil
		for file := range d.refused {
			if isBelow := file == "/"+root || strings.HasPrefix(file, "/"+root+"/"); isBelow {
				there = true
				if counts == "" || counts == root {
					wrong = fmt.Errorf("%s is refused", file)
				}
			}
		}
		if there && counts == "" {
			counts = root
		}
		if statErr == nil {
			walkErr, readErr := d.walk(files, root)
			if err = errors.Join(err, readErr); counts == root {
				wrong = errors.Join(wrong, walkErr)
			}
		}
	}
	maps.DeleteFunc(files, func(file string, _ []byte) bool { return file != counts && !strings.HasPrefix(file, counts+"/") })
	return files, wrong, err
}

func (d *disk) walk(files extractor.Files, root string) (wrong, err error) {
	err = filepath.WalkDir(filepath.Join(d.root, root), func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(d.root, file)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			files[name+"/"] = nil
		case e.Type().IsRegular():
			files[name], err = read(file, extractor.Limit(name))
		default:
			wrong = errors.Join(wrong, fmt.Errorf("%s is %s", name, e.Type()))
		}
		return err
	})
	return wrong, err
}

func read(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// oracle is what layers show when all of them are unpacked and laid upon each
// other. Where something in them is refused, a bundle that says itself that
// nothing else is part of it is looked for from the top: what lies below the
// layers that show it does not matter.
func oracle(scratch string, layers []registry.Layer) (files extractor.Files, wrong error, err error) {
	var stack []*unpacked
	for _, layer := range layers {
		u := &unpacked{root: "", refused: map[string]bool{}}
		if u.root, err = os.MkdirTemp(scratch, "layer"); err != nil {
			return nil, nil, err
		}
		if err := u.unpack(layer); err != nil {
			return nil, nil, err
		}
		stack = append(stack, u)
	}
	files, wrong, clean, err := laid(scratch, stack)
	for lowest := 1; err == nil && !clean && lowest < len(stack); lowest++ {
		var some extractor.Files
		some, _, clean, err = laid(scratch, stack[lowest:])
		if complete, ok := some.Complete(); ok && clean {
			return complete, nil, err
		}
		clean = false
	}
	if complete, ok := files.Complete(); ok && clean {
		return complete, nil, err
	}
	return files, wrong, err
}

// laid is what a stack shows. clean says that no entry of it is refused.
func laid(scratch string, stack []*unpacked) (files extractor.Files, wrong error, clean bool, err error) {
	d := &disk{refused: map[string]bool{}}
	if d.root, err = os.MkdirTemp(scratch, "image"); err != nil {
		return nil, nil, false, err
	}
	for _, u := range stack {
		if err := d.lay(u); err != nil {
			return nil, nil, false, err
		}
	}
	files, wrong, err = d.answer()
	return files, wrong, len(d.refused) == 0, err
}

// inMemory is a directory whose files need no disk, if there is one.
func inMemory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// layerStacks draws layers that are full of coincidences. Symlinks outside the
// roots have names of their own, so that it is certain which of them an entry goes through.
func layerStacks() *rapid.Generator[[]registry.Layer] {
	part := rapid.SampledFrom([]string{"capi-manifests", "capi-operator-manifests", "a", "b", "x", "y", "metadata.json", "manifests.yaml", "metadata.yaml"})
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
			at = rapid.SampledFrom([]string{"x", "y", "capi-manifests", "capi-operator-manifests", "capi-manifests/x", "capi-operator-manifests/a"}).Draw(t, "symlink")
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
		return registry.File(rapid.SampledFrom([]string{"", "", "", "", "", "", "/", "/", "./", "./", "a/../"}).Draw(t, "root")+at, rapid.SampledFrom(bodies(at)).Draw(t, "body"))
	})
	layer := rapid.Custom(func(t *rapid.T) registry.Layer {
		entries := rapid.SliceOfN(entry, 0, 6).Draw(t, "entries")
		if rapid.IntRange(0, 3).Draw(t, "bundle") == 0 {
			bundle := []registry.Entry{
				registry.File("capi-manifests/metadata.json", bodies("metadata.json")[0]),
				registry.File("capi-manifests/"+rapid.SampledFrom([]string{"manifests.yaml", "manifests"}).Draw(t, "manifests"), bodies("")[0]),
			}
			entries = slices.Insert(entries, rapid.IntRange(0, len(entries)).Draw(t, "place"), bundle...)
		}
		return registry.Layer{
			Entries:     entries,
			Compression: rapid.SampledFrom([]registry.Compression{registry.Gzip, registry.Zstd, registry.None}).Draw(t, "compression"),
		}
	})
	return rapid.SliceOfN(layer, 1, 5)
}

// bodies are what a file may hold: often what makes a bundle complete.
func bodies(name string) []string {
	one, two := "kind: One\n", "kind: Two\n"
	if path.Base(name) != "metadata.json" {
		return []string{one, two, "", "other"}
	}
	metadata := func(manifests string) string {
		return fmt.Sprintf(`{"providerName": "a", "providerType": "core", "providerVersion": "v1", "contentID": %q}`, digest.FromString(manifests))
	}
	return []string{metadata(one), metadata(two), metadata(one), "{}"}
}

// show lists the entries of layers, from the bottom to the top.
func show(layers []registry.Layer) string {
	var out strings.Builder
	for n, layer := range layers {
		for _, e := range layer.Entries {
			fmt.Fprintf(&out, "layer %d: %c %s -> %s %.20q\n", n, e.Typeflag, e.Name, e.Linkname, e.Body)
		}
	}
	return out.String()
}

func TestTheAnswerIsWhatAFullUnpackShows(t *testing.T) {
	stacks, refused, found, complete := 0, 0, 0, 0
	compare := func(t *rapid.T) {
		layers := layerStacks().Draw(t, "layers")
		scratch, err := os.MkdirTemp(inMemory(), "unpacked")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(scratch)
		image, err := registry.Format{Docker: rapid.Bool().Draw(t, "docker")}.Image(layers...)
		if err != nil {
			t.Fatal(err)
		}
		want, wrong, err := oracle(scratch, layers)
		if err != nil {
			t.Fatalf("the oracle cannot unpack: %v", err)
		}
		got, gotErr := filesOf(t.Context(), image, Limits{})
		stacks++
		if (wrong == nil) != (gotErr == nil) {
			t.Fatalf("got the error %v, want %v, for\n%s", gotErr, wrong, show(layers))
		}
		if _, ok := want.Complete(); ok {
			complete++
		}
		if wrong != nil {
			refused++
			return
		}
		if len(want) > 0 {
			found++
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-unpacked +got):\n%s\nfor %s", diff, show(layers))
		}
	}
	for range 15 {
		rapid.Check(t, compare)
	}
	t.Logf("%d stacks of layers: %d with files, %d of them complete bundles, %d refused by both, %d empty", stacks, found, complete, refused, stacks-found-refused)
	if stacks < 1000 || found < stacks/10 || refused < stacks/20 || complete < stacks/50 {
		t.Error("the stacks do not tell enough")
	}
}
