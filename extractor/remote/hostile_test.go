// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/test/registry"
)

const root = "capi-manifests"

// special returns an entry of a type that no bundle has.
func special(flag byte, name string) registry.Entry {
	return registry.Entry{Header: tar.Header{Typeflag: flag, Name: name}}
}

// refusals are rejected images of one layer, with a word of the reason.
var refusals = map[string]struct {
	entries []registry.Entry
	says    string
}{
	"a name climbs into the root":                       {[]registry.Entry{registry.File("../../capi-manifests/a", "")}, `invalid name: it contains ".."`},
	"a name climbs inside the root":                     {[]registry.Entry{registry.File("capi-manifests/x/../a", "")}, `invalid name: it contains ".."`},
	"a name climbs by an absolute path":                 {[]registry.Entry{registry.File("/../capi-manifests/a", "")}, `invalid name: it contains ".."`},
	"a directory climbs":                                {[]registry.Entry{registry.Dir("a/../capi-manifests")}, `invalid name: it contains ".."`},
	"the root is a symlink to itself":                   {[]registry.Entry{registry.Symlink(root, root)}, "invalid type symlink"},
	"the root is a symlink to nothing":                  {[]registry.Entry{registry.Symlink(root, "/nowhere")}, "invalid type symlink"},
	"the root is a symlink to a device":                 {[]registry.Entry{special(tar.TypeChar, "dev/null"), registry.Symlink(root, "dev/null")}, "invalid type symlink"},
	"a symlink below the root leads nowhere":            {[]registry.Entry{registry.Symlink("capi-manifests/a", "b")}, "invalid type symlink"},
	"a symlink below the root leads to its root":        {[]registry.Entry{registry.Symlink("capi-manifests/a", "..")}, "invalid type symlink"},
	"a symlink leads to its own directory":              {[]registry.Entry{registry.Symlink("capi-manifests/a", ".")}, "invalid type symlink"},
	"a symlink leads through a file":                    {[]registry.Entry{registry.File("f", ""), registry.Symlink("capi-manifests/a", "../f/x")}, "invalid type symlink"},
	"a symlink has no target":                           {[]registry.Entry{registry.Symlink("capi-manifests/a", "")}, "invalid type symlink"},
	"a symlink has a target of 5000 bytes":              {[]registry.Entry{registry.Symlink("capi-manifests/a", strings.Repeat("a/", 2500))}, "invalid type symlink"},
	"a hard link to itself":                             {[]registry.Entry{registry.Hardlink("capi-manifests/a", "capi-manifests/a")}, "target is not a file in the same layer"},
	"a hard link to itself in place of a file":          {[]registry.Entry{registry.File("capi-manifests/a", ""), registry.Hardlink("capi-manifests/a", "capi-manifests/a")}, "target is not a file in the same layer"},
	"a hard link to nothing":                            {[]registry.Entry{registry.Hardlink("capi-manifests/a", "b")}, "target is not a file in the same layer"},
	"a hard link to what comes after it":                {[]registry.Entry{registry.Hardlink("capi-manifests/a", "b"), registry.File("b", "")}, "target is not a file in the same layer"},
	"a hard link to a directory":                        {[]registry.Entry{registry.Dir("b"), registry.Hardlink("capi-manifests/a", "b")}, "target is not a file in the same layer"},
	"a hard link to the image's root":                   {[]registry.Entry{registry.Hardlink("capi-manifests/a", "/")}, "the target is not a valid path"},
	"a hard link that climbs":                           {[]registry.Entry{registry.File("b", ""), registry.Hardlink("capi-manifests/a", "x/../../b")}, "the target is not a valid path"},
	"a hard link to a symlink that leads nowhere":       {[]registry.Entry{registry.Symlink("b", "c"), registry.Hardlink("capi-manifests/a", "b")}, "target is not a file in the same layer"},
	"a hard link to a device":                           {[]registry.Entry{special(tar.TypeBlock, "b"), registry.Hardlink("capi-manifests/a", "b")}, "target is not a file in the same layer"},
	"character device":                                  {[]registry.Entry{special(tar.TypeChar, "capi-manifests/a")}, "invalid type character device"},
	"block device":                                      {[]registry.Entry{special(tar.TypeBlock, "capi-manifests/a")}, "invalid type block device"},
	"named pipe":                                        {[]registry.Entry{special(tar.TypeFifo, "capi-manifests/a")}, "invalid type named pipe"},
	"a contiguous file":                                 {[]registry.Entry{special(tar.TypeCont, "capi-manifests/a")}, "of an archive entry"},
	"an entry of an unknown type":                       {[]registry.Entry{special('M', "capi-manifests/a")}, "of an archive entry"},
	"a whiteout of no name":                             {[]registry.Entry{registry.File("capi-manifests/.wh.", "")}, "invalid whiteout"},
	"a whiteout of the directory itself":                {[]registry.Entry{registry.File("capi-manifests/.wh..", "")}, "invalid whiteout"},
	"a whiteout of the directory above":                 {[]registry.Entry{registry.File("capi-manifests/.wh...", "")}, "invalid whiteout"},
	"a whiteout that is a directory":                    {[]registry.Entry{registry.Dir("capi-manifests/.wh.a")}, "invalid whiteout"},
	"an opaque whiteout that is a directory":            {[]registry.Entry{registry.Dir("capi-manifests/.wh..wh..opq")}, "invalid whiteout"},
	"a name that is not UTF-8":                          {[]registry.Entry{registry.File("capi-manifests/a\xff", "")}, `"capi-manifests/a\xff": invalid name`},
	"a name that turns the text around":                 {[]registry.Entry{registry.File("capi-manifests/a\u202elmay", "")}, `\u202e`},
	"a name with a line break":                          {[]registry.Entry{registry.File("capi-manifests/a\nb", "")}, `a\nb`},
	"a name of 300 bytes":                               {[]registry.Entry{registry.File("capi-manifests/"+strings.Repeat("a", 300), "")}, "at most 255 bytes"},
	"a name of 64 KiB":                                  {[]registry.Entry{registry.File("capi-manifests/"+strings.Repeat("a", 64<<10), "")}, "at most 255 bytes"},
	"a path of 2000 components":                         {[]registry.Entry{registry.File("capi-manifests/"+strings.Repeat("a/", 2000)+"a", "")}, "components of a path: more than the limit of 128"},
	"an entry below a file":                             {[]registry.Entry{registry.File("capi-manifests/d", ""), registry.File("capi-manifests/d/a", "")}, "not a directory, but the layer has an entry below it"},
	"an entry below a whiteout":                         {[]registry.Entry{registry.File("capi-manifests/.wh.d/a", "")}, "invalid whiteout"},
	"metadata of 128 KiB":                               {[]registry.Entry{registry.File("capi-manifests/metadata.json", strings.Repeat("x", extractor.MaxMetadata*2))}, "bytes of the file: more than the limit of 65536"},
	"an entry through a symlink of its layer":           {[]registry.Entry{registry.Symlink("x", "capi-manifests"), registry.File("x/a", "")}, "capi-manifests/a: the layer has an entry that reaches this path through a symlink"},
	"an entry through two symlinks":                     {[]registry.Entry{registry.Symlink("y/x", "../z/./w"), registry.Symlink("z/w", "/"), registry.File("y/x/capi-manifests", "")}, "capi-manifests: the layer has an entry that reaches this path through a symlink"},
	"an entry through a symlink into its own directory": {append(filesIn(nil, root, aws(manifests)), registry.Symlink("capi-manifests/l", "."), registry.File("capi-manifests/l/manifests.yaml", "")), "capi-manifests/manifests.yaml: the layer has an entry"},
	"an entry through a hard link to a symlink":         {[]registry.Entry{registry.Symlink("a", "capi-manifests"), registry.Hardlink("b", "a"), registry.File("b/metadata.json", "{}")}, "capi-manifests/metadata.json: the layer has an entry that reaches this path through a symlink"},
	"a whiteout through a hard link to a symlink":       {[]registry.Entry{registry.Symlink("a", "capi-manifests"), registry.Hardlink("b", "a"), registry.File("b/.wh.metadata.json", "")}, "through a symlink"},
	"an entry through a symlink created through one":    {[]registry.Entry{registry.Symlink("s", "d"), registry.Dir("d"), registry.Symlink("s/l", "/capi-manifests"), registry.File("d/l/metadata.json", "{}")}, "capi-manifests/metadata.json: the layer has an entry that reaches this path through a symlink"},
	"an entry through a symlink with .. in its name":    {[]registry.Entry{registry.Symlink("x/../a", "capi-manifests"), registry.File("a/metadata.json", "{}")}, "capi-manifests/metadata.json: the layer has an entry that reaches this path through a symlink"},
	"an attribute of overlayfs at a root":               {[]registry.Entry{withAttribute(registry.Dir("capi-manifests"), "trusted.overlay.opaque", "y")}, "extended attribute of overlayfs"},
	"an attribute of overlayfs below a root":            {[]registry.Entry{withAttribute(registry.File("capi-manifests/a", ""), "user.overlay.redirect", "/x")}, "extended attribute of overlayfs"},
	"1001 files":                                        {manyFiles(1001), "more than the limit of 1000"},
	"a maze of symlinks":                                {maze(), "invalid type symlink"},
	"128 MiB in links to one file":                      {filesOfMetadata(), "bytes of files of bundles"},
}

func manyFiles(n int) (entries []registry.Entry) {
	for i := range n {
		entries = append(entries, registry.File(fmt.Sprintf("capi-manifests/%d", i), ""))
	}
	return entries
}

// maze returns directories that each link to the next one twice.
func maze() (entries []registry.Entry) {
	for i := range 30 {
		entries = append(entries,
			registry.Symlink(fmt.Sprintf("d%d/a", i), fmt.Sprintf("/d%d", i+1)), registry.Symlink(fmt.Sprintf("d%d/b", i), fmt.Sprintf("/d%d", i+1)))
	}
	return append(entries, registry.Dir("d30"), registry.Symlink(root, "d0"))
}

// filesOfMetadata returns one file of 20 MiB with the manifests of ten profiles.
func filesOfMetadata() []registry.Entry {
	entries := []registry.Entry{registry.File("large", strings.Repeat("#", 20<<20))}
	for i := range 10 {
		entries = append(entries, registry.Hardlink(fmt.Sprintf("capi-operator-manifests/%d/manifests.yaml", i), "large"))
	}
	return entries
}

func TestScan_RefusedEntries(t *testing.T) {
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			refusedFor(t, registry.MustImage(t, registry.Layer{Entries: test.entries}), test.says)
		})
	}
}

// refusedFor checks that an image is rejected as invalid, and that the error has the image and the reason.
func refusedFor(t *testing.T, image v1.Image, says string) {
	t.Helper()
	bundles, err := FromImage(t.Context(), image, extractor.Origin{Image: "the-image"})
	if bundles != nil || !errors.Is(err, extractor.ErrInvalid) {
		t.Fatalf("got %v and %v, want an ErrInvalid", bundles, err)
	}
	e, ok := errors.AsType[*extractor.Error](err)
	if !ok || e.Image != "the-image" {
		t.Errorf("%v does not name the image", err)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("%v does not say %q", err, says)
	}
}

// withAttribute adds an extended attribute to an entry.
func withAttribute(e registry.Entry, name, value string) registry.Entry {
	e.PAXRecords = map[string]string{"SCHILY.xattr." + name: value}
	return e
}

// Container runtimes disagree on overlayfs attributes and opaque whiteouts of the image's root.
func TestScan_RefusesAnOpaqueImageRoot(t *testing.T) {
	for _, entry := range []registry.Entry{registry.Opaque(""), withAttribute(registry.Dir("./"), "trusted.overlay.opaque", "y")} {
		layer := registry.Layer{Entries: []registry.Entry{entry, registry.File("b", "")}}
		refusedFor(t, registry.MustImage(t, shipped(t, aws(manifests)), layer), "container runtimes treat it differently")
	}
}

// 38 symlinks of 2,000 components each, and 10,000 entries through them, took 25 s of CPU.
func TestScan_BoundsTheWorkForSymlinks(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Entries: chainedSymlinks()})
	start := cpuTime(t)
	refusedFor(t, image, "components of followed symlinks of a layer: more than the limit of 4000000")
	if used := cpuTime(t) - start; used > 5*time.Second {
		t.Errorf("used %s of CPU time", used)
	}
}

// chainedSymlinks returns 38 symlinks that each lead to the next one, and 10,000 files below the first.
func chainedSymlinks() (entries []registry.Entry) {
	for n := range 38 {
		entries = append(entries, registry.Symlink(fmt.Sprintf("l%d", n), strings.Repeat("./", 2000)+fmt.Sprintf("l%d", n+1)))
	}
	for n := range 10_000 {
		entries = append(entries, registry.File(fmt.Sprintf("l0/%d", n), ""))
	}
	return entries
}

// cpuTime returns the CPU time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestScan_RefusesWhiteoutsOfTheImageRoot(t *testing.T) {
	for _, name := range []string{".wh.", ".wh..", ".wh..."} {
		refusedFor(t, registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File(name, "")}}), "invalid whiteout")
	}
}

func TestScan_RefusalNamesLayerAndFile(t *testing.T) {
	image := registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Entries: []registry.Entry{special(tar.TypeChar, "capi-manifests/metadata.json")}})
	_, err := FromImage(t.Context(), image, extractor.Origin{Image: "the-image"})
	layer := layerOf(t, image, 1).Digest.String()
	if e, ok := errors.AsType[*extractor.Error](err); !ok || e.Layer != layer || e.File != "capi-manifests/metadata.json" {
		t.Errorf("got %v, want layer %s and the file", err, layer)
	}
}

// Entries that are rejected below a root have no effect elsewhere.
func TestScan_IgnoresHostileEntriesOutsideTheRoots(t *testing.T) {
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			var entries []registry.Entry
			for _, e := range test.entries {
				e.Linkname = strings.ReplaceAll(e.Linkname, "capi-manifests", "opt/x")
				e.Name = strings.ReplaceAll(strings.ReplaceAll(e.Name, "capi-manifests", "opt/x"), "capi-operator-manifests", "opt/y")
				entries = append(entries, e)
			}
			image := registry.MustImage(t, registry.Layer{Entries: append(entries, filesIn(t, root, aws(manifests))...)})
			reads(t, image, from(aws(manifests), ""))
		})
	}
}

func TestScan_UnusualButValid(t *testing.T) {
	file := func(name string) string { return root + "/" + name }
	for name, test := range map[string]struct {
		layers []registry.Layer
		want   extractor.Files
	}{
		"absolute and dotted names are the plain name": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File("/capi-manifests/a", ""), registry.File("./capi-manifests/b", ""), registry.File("capi-manifests//c", ""), registry.File("capi-manifests/./d", "")}}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}, file("b"): {}, file("c"): {}, file("d"): {}},
		},
		"two entries in one layer: the last counts": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("manifests"), "1"), registry.File(file("manifests"), "2")}}},
			extractor.Files{"capi-manifests/": nil, file("manifests"): []byte("2")},
		},
		"a file replaces a directory": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("d/manifests"), "1"), registry.File(file("d"), "")}}},
			extractor.Files{"capi-manifests/": nil, file("d"): {}},
		},
		"a whiteout before its name hides only what is below": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("manifests"), "1")}}, {Entries: []registry.Entry{registry.Whiteout(file("manifests")), registry.File(file("manifests"), "2")}}},
			extractor.Files{"capi-manifests/": nil, file("manifests"): []byte("2")},
		},
		"a whiteout after its name hides only what is below": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("manifests"), "1")}}, {Entries: []registry.Entry{registry.File(file("manifests"), "2"), registry.Whiteout(file("manifests"))}}},
			extractor.Files{"capi-manifests/": nil, file("manifests"): []byte("2")},
		},
		"an opaque whiteout after its siblings": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Entries: []registry.Entry{registry.File(file("b"), ""), registry.Opaque(root)}}},
			extractor.Files{"capi-manifests/": nil, file("b"): {}},
		},
		"a whiteout of the root in the uppermost layer": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Entries: []registry.Entry{registry.Whiteout(root)}}},
			extractor.Files{},
		},
		"the root again above its whiteout": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Entries: []registry.Entry{registry.Whiteout(root)}}, {Entries: []registry.Entry{registry.File(file("b"), "")}}},
			extractor.Files{"capi-manifests/": nil, file("b"): {}},
		},
		"the root is replaced by a file": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Entries: []registry.Entry{registry.File(root, "x")}}},
			extractor.Files{root: {}},
		},
		"the root is replaced by a file, and that by a directory": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Entries: []registry.Entry{registry.File(root, "x")}}, {Entries: []registry.Entry{registry.Dir(root)}}},
			extractor.Files{"capi-manifests/": nil},
		},
		"the root is a symlink to itself with an entry below, and is replaced": {
			[]registry.Layer{{Entries: []registry.Entry{registry.Symlink(root, root), registry.File("x/../"+file("a"), "")}}, {Entries: []registry.Entry{registry.Dir(root), registry.File(file("b"), "")}}},
			extractor.Files{"capi-manifests/": nil, file("b"): {}},
		},
		"the bookkeeping of other unpackers": {
			[]registry.Layer{{Entries: []registry.Entry{registry.Dir(file(".wh..wh.plnk")), registry.File(file(".wh..wh.plnk/1.2"), ""), registry.File(file(".wh..wh.aufs"), "")}}},
			extractor.Files{},
		},
		"a global header names nothing": {
			[]registry.Layer{{Entries: []registry.Entry{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "capi-manifests/a"}}}, registry.File("b", "")}}},
			extractor.Files{},
		},
		"an empty layer": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"data after the end of the archive": {
			[]registry.Layer{{Archive: append(mustTar(t, registry.File(file("a"), "")), mustTar(t, registry.File(file("b"), ""))...)}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"an archive without its end": {
			[]registry.Layer{{Archive: mustTar(t, registry.File(file("a"), ""))[:512]}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"a gzip layer that is called zstd": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}, MediaType: types.OCILayerZStd}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"a layer without bytes": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Blob: []byte{}, Archive: []byte{}}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"a layer with another media type": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}, MediaType: "application/x-tar"}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"a hard link to a file elsewhere in the layer": {
			[]registry.Layer{{Entries: []registry.Entry{
				registry.File("usr/share/m.yaml", "old"), registry.File("usr/share/m.yaml", "1"), registry.Symlink("srv", "usr"), registry.Hardlink(file("manifests.yaml"), "srv/share/m.yaml"), registry.File("usr/share/m.yaml", "2"),
				registry.File("usr/share/other", "x"), registry.Hardlink(file("other"), "usr/share/other"),
			}}},
			extractor.Files{"capi-manifests/": nil, file("manifests.yaml"): []byte("1"), file("other"): {}},
		},
		"no layers": {nil, extractor.Files{}},
		"a sparse file beside a bundle": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Archive: sparse(file("image.raw"), "1099511627776")}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}, file("image.raw"): nil},
		},
		"an uncompressed layer that is called gzip": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}, Compression: registry.None, MediaType: types.OCILayer}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
		"a sparse file of one TiB outside the roots": {
			[]registry.Layer{{Entries: []registry.Entry{registry.File(file("a"), "")}}, {Archive: sparse("opt/huge", "1099511627776")}},
			extractor.Files{"capi-manifests/": nil, file("a"): {}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := filesOf(t.Context(), registry.MustImage(t, test.layers...), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// decoded is content in base64.
func decoded(t testing.TB, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// mustTar returns a tar archive.
func mustTar(t testing.TB, entries ...registry.Entry) []byte {
	t.Helper()
	archive, err := registry.Layer{Entries: entries}.Tar()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// sparse returns an archive with a file that consists of holes, in GNU's
// format 1.0: the records have the length of the file, a block the number of its pieces of data.
func sparse(name, size string) []byte {
	records := ""
	for _, kv := range [][2]string{{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", name}, {"GNU.sparse.realsize", size}} {
		line := " " + kv[0] + "=" + kv[1] + "\n"
		n := len(line) + 2
		records += fmt.Sprintf("%d%s", n, line)
	}
	block := func(name string, flag byte, size int) []byte {
		b := make([]byte, 512)
		copy(b, name)
		copy(b[100:], "0000644\x000000000\x000000000\x00")
		copy(b[124:], fmt.Sprintf("%011o\x00%011o\x00        ", size, 0))
		b[156] = flag
		copy(b[257:], "ustar\x0000")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	padded := func(s string) []byte {
		b := make([]byte, 512)
		copy(b, s)
		return b
	}
	return bytes.Join([][]byte{block("pax", 'x', len(records)), padded(records), block("x", '0', 512), padded("0\n"), make([]byte, 1024)}, nil)
}

func TestScan_InvalidLayers(t *testing.T) {
	archive := mustTar(t, registry.File("capi-manifests/manifests", strings.Repeat("a: b\n", 1000)))
	zipped := gzipped(t, archive)
	negative := bytes.Clone(archive)
	binary.BigEndian.PutUint64(negative[124:], ^uint64(0)) // a base-256 size of -1
	for name, test := range map[string]struct {
		layer registry.Layer
		says  string
	}{
		"truncated gzip":                {registry.Layer{Archive: archive, Blob: zipped[:len(zipped)/2]}, "unexpected EOF"},
		"truncated archive":             {registry.Layer{Archive: archive[:1000]}, "unexpected EOF"},
		"garbage after the gzip stream": {registry.Layer{Archive: archive, Blob: append(bytes.Clone(zipped), "garbage after the stream"...)}, "invalid header"},
		"not an archive":                {registry.Layer{Archive: bytes.Repeat([]byte("no "), 1000)}, "entry 1 of the archive"},
		"a negative size":               {registry.Layer{Archive: negative}, "entry 1 of the archive"},
		"xz":                            {registry.Layer{Archive: archive, Blob: []byte("\xfd7zXZ\x00aaaa")}, "compression xz"},
		"bzip2":                         {registry.Layer{Archive: archive, Blob: []byte("BZh91AY&SY")}, "compression bzip2"},
		"encrypted":                     {registry.Layer{Archive: archive, MediaType: "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"}, "encrypted"},
		"no archive":                    {registry.Layer{Archive: []byte(`{"an": "attestation"}`), MediaType: "application/vnd.in-toto+json"}, "entry 1 of the archive"},
		"a sparse file of one TiB":      {registry.Layer{Archive: sparse("capi-manifests/metadata.json", "1099511627776")}, "invalid type sparse file"},
		"a zstd window of 2 GiB":        {registry.Layer{Archive: archive, Blob: []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0}}, "window"},
	} {
		t.Run(name, func(t *testing.T) {
			refusedFor(t, registry.MustImage(t, test.layer), test.says)
		})
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	compressed, err := registry.Gzip.Compress(data)
	if err != nil {
		t.Fatal(err)
	}
	return compressed
}

func TestLimits_StopBombs(t *testing.T) {
	zeros := registry.File("usr/zeros", strings.Repeat("\x00", 80<<20))
	small := registry.MustImage(t, registry.Layer{Txtar: "-- a --\n1\n-- b --\n2\n"}, registry.Layer{Txtar: "-- c --\n3\n"})
	for name, test := range map[string]struct {
		image  v1.Image
		limits Limits
		says   string
	}{
		"a gzip stream of zeros":  {registry.MustImage(t, registry.Layer{Entries: []registry.Entry{zeros}}), Limits{}, "decompressed bytes of a layer for its size: more than the limit"},
		"a zstd stream of zeros":  {registry.MustImage(t, registry.Layer{Entries: []registry.Entry{zeros}, Compression: registry.Zstd}), Limits{}, "decompressed bytes of a layer for its size: more than the limit"},
		"decompressed bytes":      {small, Limits{Contents: overlay.Limits{Unpacked: 2000}}, "decompressed bytes of a layer: more than the limit of 2000"},
		"entries":                 {small, Limits{Contents: overlay.Limits{Entries: 1}}, "archive entries: more than the limit of 1"},
		"symlinks":                {registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.Symlink("a", "b")}}), Limits{Contents: overlay.Limits{Links: 100}}, "bytes of the symlinks of a layer: more than the limit of 100"},
		"layers":                  {small, Limits{Layers: 1}, "layers: more than the limit of 1"},
		"the bytes of one layer":  {small, Limits{Layer: 20}, "bytes of the layer: more than the limit of 20"},
		"the bytes of all layers": {small, Limits{Image: 20}, "bytes of all layers: more than the limit of 20"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := test.image.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			u := imageReader{limits: test.limits.withDefaults(), readBlob: localBlobs(test.image), cache: &layerCache{}}
			_, err = u.readBundles(t.Context(), raw, extractor.Origin{})
			limit, ok := errors.AsType[*overlay.LimitError](err)
			if !ok || !errors.Is(err, extractor.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v (%v), want %q", err, limit, test.says)
			}
		})
	}
}

func TestRegistry_RejectsAmbiguousManifests(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"})
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) string { return strings.Replace(string(raw), old, new, 1) }
	reg := registry.New(t, registry.Options{})
	if _, err := reg.Push("a", image); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ manifest, says string }{
		"an empty object":             {`{}`, "schema version 0"},
		"schema 1":                    {`{"schemaVersion":1,"fsLayers":[{"blobSum":"sha256:00"}],"layers":[]}`, "docker schema 1"},
		"schemas 1 and 2":             {change(`"layers":`, `"history":[],"layers":`), "is ambiguous"},
		"a web page":                  {`<html>log in</html>`, "parsing the manifest"},
		"layers and manifests":        {change(`"layers":`, `"manifests":[],"layers":`), "is ambiguous"},
		"no layers":                   {`{"schemaVersion":2}`, "no layers"},
		"a chart":                     {change(string(types.OCIConfigJSON), "application/vnd.cncf.helm.config.v1+json"), "it is not an image"},
		"no config":                   {change(`"config":`, `"configuration":`), "the config has the digest"},
		"another media type":          {change(string(types.OCIManifestSchema1), "application/vnd.oci.artifact.manifest.v1+json"), "media type"},
		"an index's media type":       {change(string(types.OCIManifestSchema1), string(types.OCIImageIndex)), "is ambiguous"},
		"an index of indexes":         {`{"schemaVersion":2,"manifests":[{"mediaType":"` + string(types.OCIImageIndex) + `","size":10,"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"linux","architecture":"amd64"}}]}`, "the entry for linux/amd64 is not an image"},
		"an index of an attestation":  {`{"schemaVersion":2,"manifests":[{"mediaType":"` + string(types.OCIManifestSchema1) + `","size":10,"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"unknown","architecture":"unknown"}}]}`, "only for: unknown/unknown"},
		"an index of a negative size": {`{"schemaVersion":2,"manifests":[{"mediaType":"` + string(types.OCIManifestSchema1) + `","size":-1,"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"linux","architecture":"amd64"}}]}`, "the manifest has the size -1"},
		"an empty index":              {`{"schemaVersion":2,"manifests":[]}`, "no image for linux/"},
		"an index of version 1":       {`{"schemaVersion":1,"manifests":[]}`, "schema version 1"},
		"an index with a wrong type":  {`{"schemaVersion":2,"mediaType":"` + string(types.OCIManifestSchema1) + `","manifests":[]}`, "has the media type"},
		"a layer of a negative size":  {change(`"size":`, `"size":-1,"was":`), "has the size -1"},
		"a layer with a short digest": {`{"schemaVersion":2,"layers":[{"size":1,"digest":"sha256:abc"}]}`, "invalid checksum digest length"},
	} {
		t.Run(name, func(t *testing.T) {
			digest, _, err := v1.SHA256(strings.NewReader(test.manifest))
			if err != nil {
				t.Fatal(err)
			}
			reg.Heal()
			reg.Fail(registry.Fault{Path: digest.String(), Status: 200, Body: []byte(test.manifest)})
			_, err = client(t).Fetch(t.Context(), reg.Host()+"/a@"+digest.String())
			if !errors.Is(err, extractor.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an ErrInvalid with %q", err, test.says)
			}
		})
	}
}

func TestFromImage_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := FromImage(ctx, registry.MustImage(t, shipped(t, aws(manifests))), extractor.Origin{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
