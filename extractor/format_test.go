// SPDX-License-Identifier: Apache-2.0

package extractor_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

var origin = extractor.Origin{Name: "aws-cluster-api-controllers", Image: "quay.io/example/capa@sha256:" + strings.Repeat("a", 64)}

// Each archive is an image's files and what Bundles says about them, in a file named want.
func TestBundles(t *testing.T) {
	scenario.Run(t, "testdata/bundles/*.txtar", scenario.AllBut("want"), func(t *testing.T, archive *scenario.Archive) []scenario.File {
		files := extractor.Files{}
		for _, file := range archive.Files {
			if file.Name != "want" {
				files[file.Name] = file.Data
			}
		}
		bundles, err := files.Bundles(origin)
		if err != nil && !errors.Is(err, extractor.ErrInvalid) {
			t.Errorf("error is %v, want ErrInvalid", err)
		}
		return []scenario.File{{Name: "want", Data: []byte(describe(bundles, err))}}
	})
}

// describe returns the result of Bundles as text. It omits the image, because it is always the
// same.
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

func TestBundles_LimitsApplyBeforeParsing(t *testing.T) {
	manifests := make([]byte, extractor.MaxManifests+1)
	for name, test := range map[string]struct {
		files extractor.Files
		want  string
	}{
		"manifests": {extractor.Files{
			"capi-manifests/metadata.json":  []byte("{"),
			"capi-manifests/manifests.yaml": manifests,
		}, "file capi-manifests/manifests.yaml: exceeds 33554432 bytes"},
		"metadata.json": {extractor.Files{
			"capi-manifests/metadata.json":  []byte(strings.Repeat("[", extractor.MaxMetadata+1)),
			"capi-manifests/manifests.yaml": []byte("kind: Namespace\n"),
		}, "file capi-manifests/metadata.json: exceeds 65536 bytes"},
		"metadata.yaml": {extractor.Files{
			"capi-operator-manifests/default/metadata.yaml":  []byte(strings.Repeat("[", extractor.MaxMetadata+1)),
			"capi-operator-manifests/default/manifests.yaml": []byte("kind: Namespace\n"),
		}, "file capi-operator-manifests/default/metadata.yaml: exceeds 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.files.Bundles(extractor.Origin{})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, not %s", err, test.want)
			}
		})
	}
}

func TestBundles_ErrorsAreBounded(t *testing.T) {
	long, many := strings.Repeat("x", 60_000), &strings.Builder{}
	for i := range 6000 {
		fmt.Fprintf(many, `"%d":0,`, i)
	}
	for name, metadata := range map[string]string{
		"a long key":           `{"` + long + `": 1}`,
		"a long duplicate key": `{"` + long[:30_000] + `": 1, "` + long[:30_000] + `": 1}`,
		"long values":          `{"providerName": "` + long[:15_000] + `", "providerType": "` + long[:15_000] + `", "contentID": "` + long[:15_000] + `", "ocpPlatform": ["` + long[:15_000] + `"]}`,
		"many keys":            `{` + many.String() + `"": 0}`,
		"deep nesting":         strings.Repeat("[", 60_000),
	} {
		for _, file := range []string{"capi-manifests/metadata.json", "capi-operator-manifests/default/metadata.yaml"} {
			files := extractor.Files{file: []byte(metadata), path.Join(path.Dir(file), "manifests.yaml"): []byte("kind: Namespace\n")}
			_, err := files.Bundles(extractor.Origin{})
			if err == nil || len(err.Error()) > 100*1024 {
				t.Errorf("%s in %s: an error of %d bytes", name, file, len(fmt.Sprint(err)))
			}
		}
	}
}

func TestBundles_ReadsFilesOfTheLargestSize(t *testing.T) {
	manifests := bytes.Repeat([]byte("#"), extractor.MaxManifests)
	files, err := bundle(manifests).Files()
	if err != nil {
		t.Fatal(err)
	}
	metadata := files["capi-manifests/metadata.json"]
	files["capi-manifests/metadata.json"] = append(metadata, bytes.Repeat([]byte(" "), extractor.MaxMetadata-len(metadata))...)
	if _, err := files.Bundles(origin); err != nil {
		t.Error(err)
	}
}

func TestLimit(t *testing.T) {
	for file, want := range map[string]int64{
		"capi-manifests/metadata.json":                       extractor.MaxMetadata,
		"capi-manifests/manifests.yaml":                      extractor.MaxManifests,
		"capi-manifests/manifests":                           extractor.MaxManifests,
		"capi-operator-manifests/default/metadata.yaml":      extractor.MaxMetadata,
		"capi-operator-manifests/aws/default/manifests.yaml": extractor.MaxManifests,
		"capi-manifests/README.md":                           0,
		"capi-manifests":                                     0,
		"capi-manifests-old/metadata.json":                   0,
		"metadata.json":                                      0,
	} {
		if got := extractor.Limit(file); got != want {
			t.Errorf("%s: %d bytes, not %d", file, got, want)
		}
	}
}

func bundle(manifests []byte) extractor.Bundle {
	return extractor.Bundle{
		Origin: origin,
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0",
			OCPPlatform: "AWS", ContentID: digest.FromBytes(manifests), ImageName: "registry.example.com/openshift:capa",
		},
		Manifests: manifests,
	}
}

func TestBundleFiles_WritesTheFirstLayout(t *testing.T) {
	files, err := bundle([]byte("kind: Namespace\n")).Files()
	if err != nil {
		t.Fatal(err)
	}
	want := extractor.Files{
		"capi-manifests/manifests.yaml": []byte("kind: Namespace\n"),
		"capi-manifests/metadata.json": []byte(`{
  "providerName": "cluster-api-provider-aws",
  "providerType": "infrastructure",
  "providerVersion": "v2.10.0",
  "ocpPlatform": "AWS",
  "contentID": "` + digest.FromString("kind: Namespace\n").String() + `",
  "imageName": "registry.example.com/openshift:capa"
}
`),
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBundleFiles_RejectsAnInvalidBundle(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*extractor.Bundle)
		want   string
	}{
		"an install order":         {func(b *extractor.Bundle) { b.Metadata.InstallOrder = 20 }, "has no key for the install order 20"},
		"another content ID":       {func(b *extractor.Bundle) { b.Metadata.ContentID = digest.FromString("x") }, "contentID in metadata.json is " + digest.FromString("x").String()},
		"no content ID":            {func(b *extractor.Bundle) { b.Metadata.ContentID = "" }, "contentID: must be set"},
		"no name":                  {func(b *extractor.Bundle) { b.Metadata.ProviderName = "" }, "providerName: must be set"},
		"no manifests":             {func(b *extractor.Bundle) { b.Manifests = nil }, "manifests.yaml: is empty"},
		"a version that is a book": {func(b *extractor.Bundle) { b.Metadata.ProviderVersion = strings.Repeat("v", 129) }, "providerVersion: exceeds 128 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bundle([]byte("kind: Namespace\n"))
			test.change(&b)
			files, err := b.Files()
			if err == nil || files != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, not %s", files, err, test.want)
			}
		})
	}
}

// character is a character that text can have: a NUL is a sign of UTF-16.
var character = rapid.Rune().Filter(func(r rune) bool { return r != 0 })

func TestBundleFiles_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		manifests := []byte(rapid.StringOfN(character, 1, 1000, -1).Draw(t, "manifests"))
		want := extractor.Bundle{Origin: origin, Manifests: manifests, Metadata: extractor.Metadata{
			ProviderName:    rapid.StringMatching(`[a-z]([-a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name"),
			ProviderType:    rapid.SampledFrom(extractor.ProviderTypes()).Draw(t, "type"),
			ProviderVersion: rapid.StringN(1, 30, 128).Draw(t, "version"),
			OCPPlatform:     rapid.String().Draw(t, "platform"),
			ContentID:       digest.FromBytes(manifests),
			ImageName:       rapid.String().Draw(t, "placeholder"),
		}}
		files, err := want.Files()
		if err != nil {
			t.Fatal(err)
		}
		got, err := files.Bundles(origin)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]extractor.Bundle{want}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestReadDir_ImageRootOrBundleRoot(t *testing.T) {
	layouts := map[string]extractor.Files{"capi-manifests": {
		"capi-manifests/":               nil,
		"capi-manifests/metadata.json":  []byte("metadata"),
		"capi-manifests/manifests.yaml": []byte("manifests"),
		"capi-manifests/manifest.yaml":  {},
	}, "capi-operator-manifests": {
		"capi-operator-manifests/":                       nil,
		"capi-operator-manifests/default/":               nil,
		"capi-operator-manifests/default/metadata.yaml":  []byte("metadata"),
		"capi-operator-manifests/default/manifests.yaml": []byte("manifests"),
		"capi-operator-manifests/empty/":                 nil,
	}}
	for root, want := range layouts {
		image := fstest.MapFS{"usr/bin/manager": {Data: []byte("ELF")}}
		for file, data := range want {
			if strings.HasSuffix(file, "/") {
				image[strings.TrimSuffix(file, "/")] = &fstest.MapFile{Mode: fs.ModeDir}
				continue
			}
			if len(data) == 0 {
				data = []byte("not read")
			}
			image[file] = &fstest.MapFile{Data: data}
		}
		inside, err := fs.Sub(image, root)
		if err != nil {
			t.Fatal(err)
		}
		for name, fsys := range map[string]fs.FS{"root of the image": image, "root of the bundles": inside} {
			t.Run(root+", "+name, func(t *testing.T) {
				got, err := extractor.ReadDir(fsys)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		}
	}
}

func TestReadDir_ReadsNoMoreThanTheLimit(t *testing.T) {
	image := fstest.MapFS{"capi-manifests/metadata.json": {Data: make([]byte, 2*extractor.MaxMetadata)}}
	files, err := extractor.ReadDir(image)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(files["capi-manifests/metadata.json"]); got != extractor.MaxMetadata+1 {
		t.Errorf("%d bytes were read", got)
	}
}

func TestReadDir_NoBundles(t *testing.T) {
	files, err := extractor.ReadDir(fstest.MapFS{"usr/bin/manager": {Data: []byte("ELF")}})
	if err != nil || len(files) > 0 {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestReadDir_UnreadableDirectoryIsAnError(t *testing.T) {
	for name, dir := range map[string]string{"missing": filepath.Join(t.TempDir(), "missing"), "a file": "format_test.go"} {
		if files, err := extractor.ReadDir(os.DirFS(dir)); err == nil {
			t.Errorf("%s: got %v and no error", name, files)
		}
	}
}

// A mounted volume of a ConfigMap is made of links.
func TestReadDir_FollowsLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", filepath.Join(dir, "metadata.json")); err != nil {
		t.Fatal(err)
	}
	files, err := extractor.ReadDir(os.DirFS(dir))
	if err != nil || string(files["capi-manifests/metadata.json"]) != "{}" {
		t.Errorf("got %q, %v", files, err)
	}
}

func FuzzBundles(f *testing.F) {
	for _, archive := range scenario.Archives(f, "testdata/bundles/*.txtar") {
		one, other := archive.Files[0], archive.Files[min(1, len(archive.Files)-1)]
		f.Add(one.Name, one.Data, other.Name, other.Data)
	}
	f.Fuzz(func(t *testing.T, oneName string, one []byte, otherName string, other []byte) {
		files := extractor.Files{oneName: one, otherName: other}
		bundles, err := files.Bundles(origin)
		if err != nil {
			if named, ok := errors.AsType[*extractor.Error](err); !ok || named.Image != origin.Image || !errors.Is(err, extractor.ErrInvalid) || bundles != nil {
				t.Errorf("%d bundles and the error %v", len(bundles), err)
			}
			return
		}
		for _, b := range bundles {
			checkBundle(t, b)
		}
	})
}

// checkBundle fails unless b keeps what Bundles promises, and is written and read again.
func checkBundle(t *testing.T, b extractor.Bundle) {
	t.Helper()
	m := b.Metadata
	if m.ContentID != digest.FromBytes(b.Manifests) || len(b.Manifests) == 0 || m.ProviderName == "" || !slices.Contains(extractor.ProviderTypes(), m.ProviderType) && (m.ProviderType != "" || b.Profile == "") {
		t.Errorf("%+v", b)
	}
	if m.ProviderVersion == "" || m.ProviderType == "" || m.InstallOrder != 0 {
		return // the second layout only
	}
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	again, err := files.Bundles(origin)
	b.Profile = ""
	if diff := cmp.Diff([]extractor.Bundle{b}, again); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// Opening a named pipe would wait for a writer.
func TestReadDir_RejectsANamedPipe(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "capi-manifests"), 0o700), syscall.Mkfifo(filepath.Join(dir, "capi-manifests", "metadata.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := extractor.ReadDir(os.DirFS(dir))
	if err == nil || !strings.Contains(err.Error(), "metadata.json: not a regular file") {
		t.Errorf("got %v", err)
	}
}

// TestFiles_BothNamesOfManifests: the file with the digest of the metadata counts, wherever an image or a directory has the other one.
func TestFiles_BothNamesOfManifests(t *testing.T) {
	files, err := bundle([]byte("kind: ConfigMap\n")).Files()
	if err != nil {
		t.Fatal(err)
	}
	manifests := files["capi-manifests/manifests.yaml"]
	want, err := files.Bundles(extractor.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]struct {
		yaml, bare string
		valid      bool
	}{
		"manifests.yaml": {string(manifests), "kind: Other\n", true}, "manifests": {"kind: Other\n", string(manifests), true},
		"both": {string(manifests), string(manifests), true}, "neither": {"kind: Other\n", "kind: Other\n", false},
	} {
		both := maps.Clone(files)
		both["capi-manifests/manifests.yaml"], both["capi-manifests/manifests"] = []byte(other.yaml), []byte(other.bare)
		got, err := both.Bundles(extractor.Origin{})
		if (err == nil) != other.valid || other.valid && !cmp.Equal(got, want) {
			t.Errorf("%s has the digest: got %v, %v", name, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "manifests also exists: keep one") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
