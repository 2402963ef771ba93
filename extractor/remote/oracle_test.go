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

// unpacked is a layer in a separate directory, as container runtimes unpack
// it, with real links in a real file system. An entry that is not part of a
// bundle becomes a socket; no other code creates sockets.
type unpacked struct {
	root      string
	whiteouts []string
	opaques   []string
	refused   map[string]bool // paths where no unpacker should create an entry
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

// entry creates an entry where a container runtime does: its name is cleaned, and its directory is resolved by the
// links that exist at that moment. An entry that reaches a root in this way, or an opaque
// whiteout of the image's root, is rejected.
func (u *unpacked) entry(e registry.Entry) error {
	clean := path.Clean("/" + e.Name)
	dir, err := u.resolve(path.Dir(clean))
	if err != nil {
		return nil // dangling
	}
	at := path.Join(dir, path.Base(clean))
	climbs := slices.Contains(strings.Split(e.Name, "/"), "..")
	if concernsRoot(at) && (at != clean || climbs) || at == "/.wh..wh..opq" {
		u.refused[at] = true
		return nil
	}
	if ok, err := u.mkdirs(dir); !ok || err != nil {
		return err
	}
	if hidden, ok := strings.CutPrefix(path.Base(at), ".wh."); ok {
		if hidden == ".wh..opq" {
			u.opaques = append(u.opaques, dir)
			return nil
		}
		u.whiteouts = append(u.whiteouts, path.Join(dir, hidden))
		return nil
	}
	real := filepath.Join(u.root, at)
	info, err := os.Lstat(real)
	if err == nil && info.IsDir() && e.Typeflag == tar.TypeDir {
		return nil
	}
	if e.Typeflag == tar.TypeLink && isIn(at) {
		return u.bundleHardlink(real, at, path.Clean("/"+e.Linkname))
	}
	if e.Typeflag == tar.TypeLink {
		return u.hardlink(real, at, path.Clean("/"+e.Linkname))
	}
	if err := os.RemoveAll(real); err != nil {
		return err
	}
	return create(real, e)
}

// concernsRoot reports whether a path is at or below a root of bundles, or is a whiteout of one.
func concernsRoot(at string) bool {
	hidden, isWhiteout := strings.CutPrefix(at, "/.wh.")
	return isIn(at) || isWhiteout && (slices.Contains(extractor.Roots(), hidden) || hidden == ".wh..opq")
}

// hardlink links to a file or a symlink outside the roots, or creates a socket where unpackers fail.
func (u *unpacked) hardlink(real, at, target string) error {
	dir, err := u.resolve(path.Dir(target))
	from := path.Join(dir, path.Base(target))
	to := filepath.Join(u.root, from)
	info, statErr := os.Lstat(to)
	if err != nil || statErr != nil || info.IsDir() || from == at || strings.HasPrefix(from, at+"/") {
		return errors.Join(os.RemoveAll(real), syscall.Mknod(real, syscall.S_IFSOCK|0o600, 0))
	}
	if err := os.RemoveAll(real); err != nil {
		return err
	}
	return os.Link(to, real)
}

// refuse records an entry that no unpacker should create.
func (u *unpacked) refuse(at string) { u.refused[at] = true }

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

// errShared reports a hard link of a bundle to an entry outside of the roots. TestScan_UnusualButValid has such layers.
var errShared = errors.New("a bundle shares an entry outside of the roots")

// bundleHardlink links to a file of a bundle in the same layer; other targets are rejected.
func (u *unpacked) bundleHardlink(at, clean, target string) error {
	if dir, err := u.resolve(path.Dir(target)); err == nil && !isIn(path.Join(dir, path.Base(target))) {
		if _, err := os.Lstat(filepath.Join(u.root, dir, path.Base(target))); err == nil {
			return errShared
		}
	}
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

// mkdirs creates a directory with its parents, unless another entry exists there.
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
		case !info.IsDir() && !isIn(at):
			// Unpackers fail here, or replace the file.
			if err := errors.Join(os.Remove(filepath.Join(u.root, at)), os.Mkdir(filepath.Join(u.root, at), 0o755)); err != nil {
				return false, err
			}
		case !info.IsDir():
			return false, nil
		}
	}
	return true, nil
}

// resolve returns the path of a directory without symlinks of this layer. A missing path is returned unchanged.
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

// disk merges layers from the bottom to the top.
type disk struct {
	root    string
	refused map[string]bool
}

// lay puts a layer on top of the existing ones.
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

// isDir reports whether a directory exists, without following symlinks.
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
		return nil // a directory has no content
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

// merge merges a directory of a layer into the directory of the same path.
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

// mkdir creates the directory at, in place of another entry.
func (d *disk) mkdir(at string) error {
	delete(d.refused, at)
	over := filepath.Join(d.root, at)
	if info, err := os.Lstat(over); err == nil && info.IsDir() {
		return nil
	}
	return errors.Join(os.RemoveAll(over), os.Mkdir(over, 0o755))
}

// errImageRoot reports a rejected entry in the root of the image. A reader that stops above its layer does not see it.
var errImageRoot = errors.New("an entry in the root of the image is refused")

// answer returns the files of the first root of bundles that exists on the disk.
func (d *disk) answer() (files extractor.Files, wrong error, err error) {
	files = extractor.Files{}
	counts := ""
	for _, root := range extractor.Roots() {
		_, statErr := os.Lstat(filepath.Join(d.root, root))
		there := statErr == nil
		for file := range d.refused {
			if !isIn(file) {
				wrong = errImageRoot
			}
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

// oracle returns the files of the bundles when all layers are unpacked on top of each
// other. As documented, the uppermost layers with a complete bundle decide: its metadata
// proves that no other file belongs to it, so the layers below do not matter.
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
	if complete, ok := files.Complete(); ok && clean {
		return complete, nil, err
	}
	for lowest := 1; err == nil && lowest < len(stack); lowest++ {
		var some extractor.Files
		some, _, clean, err = laid(scratch, stack[lowest:])
		if complete, ok := some.Complete(); ok && clean {
			return complete, nil, err
		}
	}
	return files, wrong, err
}

// laid returns the content of a stack of layers; clean is true if no entry was rejected.
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

// inMemory returns a directory of a file system in memory; empty if there is none.
func inMemory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// layerStacks draws layers with many collisions: entries that replace each other, symlinks that are
// created through symlinks and by names with "..", and hard links to symlinks.
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
			at = rapid.SampledFrom([]string{"x", "y", "x", "y", "a", "b", "x/y", "a/x", "a/../x", "y/../a", "capi-manifests", "capi-operator-manifests", "capi-manifests/x", "capi-operator-manifests/a"}).Draw(t, "symlink")
			return registry.Symlink(at, rapid.OneOf(target, rapid.SampledFrom([]string{"/", ".", "..", "/capi-manifests", "capi-manifests", "x", "/y"})).Draw(t, "target"))
		case "hardlink":
			if rapid.Bool().Draw(t, "of a symlink") {
				return registry.Hardlink(rapid.SampledFrom([]string{"x", "y", "a", "b", "b/x"}).Draw(t, "name"), rapid.SampledFrom([]string{"x", "y", "a", "x/y", "a/x"}).Draw(t, "target"))
			}
			return registry.Hardlink(at, name.Draw(t, "target"))
		case "whiteout":
			return registry.Whiteout(at)
		case "opaque":
			return registry.Opaque(at)
		case "pipe":
			return registry.Entry{Header: tar.Header{Typeflag: tar.TypeFifo, Name: at}}
		}
		if rapid.IntRange(0, 4).Draw(t, "through a symlink") == 0 {
			at = rapid.SampledFrom([]string{"x/", "y/", "a/", "b/", "x/y/", "a/x/", "x/capi-manifests/"}).Draw(t, "symlink") + rapid.SampledFrom([]string{"metadata.json", "manifests.yaml", ".wh.metadata.json"}).Draw(t, "file")
		}
		return registry.File(rapid.SampledFrom([]string{"", "", "", "", "", "", "/", "/", "./", "./", "a/../"}).Draw(t, "root")+at, rapid.SampledFrom(bodies(at)).Draw(t, "body"))
	})
	layer := rapid.Custom(func(t *rapid.T) registry.Layer {
		entries := rapid.SliceOfN(entry, 0, 6).Draw(t, "entries")
		if rapid.IntRange(0, 5).Draw(t, "chain") == 0 {
			entries = append(entries, linkChain().Draw(t, "links")...)
		}
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

// linkChain draws entries that reach a root through links, in the shapes that a scanner misses most easily.
func linkChain() *rapid.Generator[[]registry.Entry] {
	file := registry.File("b/metadata.json", bodies("metadata.json")[0])
	return rapid.SampledFrom([][]registry.Entry{
		{registry.Symlink("a", "capi-manifests"), registry.Hardlink("b", "a"), file},
		{registry.Symlink("a", "/capi-manifests"), registry.Hardlink("b", "a"), registry.File("b/.wh.metadata.json", "")},
		{registry.Symlink("x", "b"), registry.Dir("b"), registry.Symlink("x/y", "/capi-manifests"), registry.File("b/y/metadata.json", "{}")},
		{registry.Symlink("x/../b", "capi-manifests"), file},
		{registry.Symlink("b", "capi-manifests"), registry.Dir("b"), file},
		{registry.Symlink("b", "capi-manifests"), registry.Hardlink("b", "b"), file},
	})
}

// bodies are contents of files; many of them complete a bundle.
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

// show returns the entries of layers as text, from the bottom to the top.
func show(layers []registry.Layer) string {
	var out strings.Builder
	for n, layer := range layers {
		for _, e := range layer.Entries {
			fmt.Fprintf(&out, "layer %d: %c %s -> %s %.20q\n", n, e.Typeflag, e.Name, e.Linkname, e.Body)
		}
	}
	return out.String()
}

// comparison counts the stacks that were compared.
type comparison struct{ stacks, refused, found, complete int }

// compare draws a stack of layers and compares the bundle files with the oracle's.
func (c *comparison) compare(t *rapid.T) {
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
	if errors.Is(err, errShared) {
		return
	}
	if err != nil {
		t.Fatalf("the oracle cannot unpack: %v", err)
	}
	if errors.Is(wrong, errImageRoot) {
		return
	}
	got, gotErr := filesOf(t.Context(), image, Limits{})
	c.stacks++
	if (wrong == nil) != (gotErr == nil) {
		t.Fatalf("got the error %v, want %v, for\n%s", gotErr, wrong, show(layers))
	}
	if _, ok := want.Complete(); ok {
		c.complete++
	}
	if wrong != nil {
		c.refused++
		return
	}
	if len(want) > 0 {
		c.found++
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-unpacked +got):\n%s\nfor %s", diff, show(layers))
	}
}

func TestOverlay_MatchesAFullUnpack(t *testing.T) {
	least := 1000
	if os.Getenv("E2E") == "full" {
		least = 2000
	}
	c := comparison{}
	for c.stacks < least { // rapid makes fewer checks with -short
		rapid.Check(t, c.compare)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d stacks of layers: %d with files, %d of them complete bundles, %d refused by both, %d empty", c.stacks, c.found, c.complete, c.refused, c.stacks-c.found-c.refused)
	if c.found < c.stacks/10 || c.refused < c.stacks/20 || c.complete < c.stacks/50 {
		t.Error("the stacks do not cover enough cases")
	}
}

// FuzzOverlay compares the overlay with a real unpack, of stacks that the fuzzer draws.
func FuzzOverlay(f *testing.F) {
	c := comparison{}
	f.Fuzz(rapid.MakeFuzz(c.compare))
}
