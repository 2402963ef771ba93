// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/tools/txtar"
)

// Layer describes a layer of an image. Its entries are the files of Txtar, followed by Entries.
type Layer struct {
	// Txtar is an archive of text files by their paths in the image.
	Txtar string
	// Entries are archive entries in order; they can be invalid.
	Entries []Entry
	// Archive, if set, is the tar archive, for content that Entries cannot express.
	Archive []byte
	// Compression is Gzip, Zstd or None.
	Compression Compression
	// Blob, if set, is the content of the blob instead of the compressed archive.
	Blob []byte
	// MediaType is the media type of the layer; "" means the usual one of the compression and the format.
	MediaType types.MediaType
}

// Compression is the compression of a layer.
type Compression int

// The compressions of image layers.
const (
	Gzip Compression = iota
	Zstd
	None
)

// Entry is an entry of a tar archive. The functions below return entries.
type Entry struct {
	tar.Header
	// Body is the content; Header.Size need not be set.
	Body string
}

// File returns a regular file.
func File(name, body string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, Body: body}
}

// Dir returns a directory.
func Dir(name string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimSuffix(name, "/") + "/", Mode: 0o755}}
}

// Symlink returns a symlink at name to target.
func Symlink(name, target string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

// Hardlink returns a hard link at name to target, a path from the image's root.
func Hardlink(name, target string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}}
}

// Whiteout returns a whiteout: it hides name in lower layers.
func Whiteout(name string) Entry {
	dir, base := path.Split(strings.TrimSuffix(name, "/"))
	return File(dir+".wh."+base, "")
}

// Opaque returns an opaque whiteout: it hides the content of dir in lower layers; "" means the image's root.
func Opaque(dir string) Entry {
	return File(path.Join(dir, ".wh..wh..opq"), "")
}

// Image returns an OCI image of layers, from bottom to top.
func Image(layers ...Layer) (v1.Image, error) {
	return Format{}.Image(layers...)
}

// MustImage is Image for tests.
func MustImage(t testing.TB, layers ...Layer) v1.Image {
	t.Helper()
	image, err := Image(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// Content returns the bytes of the n-th layer of an image, as a registry has them.
func Content(t testing.TB, image v1.Image, n int) []byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	body, err := layers[n].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

// Format is the format of an image. The zero value is OCI for linux/amd64.
type Format struct {
	// Docker writes Docker's media types instead of OCI's.
	Docker bool
	// Platform is the image's platform, such as "linux/arm64"; "" means linux/amd64.
	Platform string
	// Labels are the labels of the image's config.
	Labels map[string]string
}

// Image returns an image of layers, from bottom to top.
func (f Format) Image(layers ...Layer) (v1.Image, error) {
	platform, err := f.platform()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if f.Docker {
		image = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.DockerManifestSchema2), types.DockerConfigJSON)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{Labels: f.Labels},
	})
	if err != nil {
		return nil, fmt.Errorf("making an image: %w", err)
	}
	for n, layer := range layers {
		made, err := f.layer(layer)
		if err == nil {
			image, err = mutate.Append(image, mutate.Addendum{Layer: made, MediaType: made.mediaType})
		}
		if err != nil {
			return nil, fmt.Errorf("making layer %d of an image: %w", n, err)
		}
	}
	return image, nil
}

func (f Format) platform() (*v1.Platform, error) {
	if f.Platform == "" {
		return &v1.Platform{OS: "linux", Architecture: "amd64"}, nil
	}
	return v1.ParsePlatform(f.Platform)
}

// Child is an image of an index.
type Child struct {
	// Platform is the platform of the image in the index, such as "linux/arm64"; "" omits it.
	Platform string
	Image    v1.Image
}

// Index returns an index of images: OCI's, or Docker's manifest list.
func (f Format) Index(children ...Child) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	if f.Docker {
		index = mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	}
	for _, child := range children {
		add := mutate.IndexAddendum{Add: child.Image}
		if child.Platform != "" {
			platform, err := v1.ParsePlatform(child.Platform)
			if err != nil {
				return nil, fmt.Errorf("making an index: %w", err)
			}
			add.Platform = platform
		}
		index = mutate.AppendManifests(index, add)
	}
	return index, nil
}

// Tar returns the tar archive of a layer.
func (l Layer) Tar() ([]byte, error) {
	if l.Archive != nil {
		return l.Archive, nil
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range append(txtarEntries(l.Txtar), l.Entries...) {
		h := e.Header
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.Body))
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("writing %q: %w", h.Name, err)
		}
		if _, err := io.WriteString(w, e.Body); err != nil {
			return nil, fmt.Errorf("writing %q: %w", h.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func txtarEntries(text string) []Entry {
	var entries []Entry
	for _, f := range txtar.Parse([]byte(text)).Files {
		entries = append(entries, File(f.Name, string(f.Data)))
	}
	return entries
}

// layer returns the v1.Layer for l.
func (f Format) layer(l Layer) (*blob, error) {
	archive, err := l.Tar()
	if err != nil {
		return nil, err
	}
	made := &blob{plain: archive, data: l.Blob, mediaType: l.MediaType}
	if made.data == nil {
		if made.data, err = l.Compression.Compress(archive); err != nil {
			return nil, err
		}
	}
	if made.mediaType == "" {
		made.mediaType = f.mediaType(l.Compression)
	}
	return made, nil
}

func (f Format) mediaType(c Compression) types.MediaType {
	oci := map[Compression]types.MediaType{Gzip: types.OCILayer, Zstd: types.OCILayerZStd, None: types.OCIUncompressedLayer}
	docker := map[Compression]types.MediaType{Gzip: types.DockerLayer, Zstd: "application/vnd.docker.image.rootfs.diff.tar.zstd", None: types.DockerUncompressedLayer}
	if f.Docker {
		return docker[c]
	}
	return oci[c]
}

// Compress compresses an archive, always to the same bytes.
func (c Compression) Compress(archive []byte) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch c {
	case Gzip:
		w = gzip.NewWriter(&out)
	case Zstd:
		encoder, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		w = encoder
	case None:
		return archive, nil
	default:
		return nil, fmt.Errorf("unknown compression %d", c)
	}
	if _, err := w.Write(archive); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// blob is a v1.Layer with arbitrary bytes.
type blob struct {
	plain, data []byte
	mediaType   types.MediaType
}

func (b *blob) Digest() (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(b.data))
	return digest, err
}

func (b *blob) DiffID() (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(b.plain))
	return digest, err
}

func (b *blob) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.data)), nil
}

func (b *blob) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.plain)), nil
}

func (b *blob) Size() (int64, error) { return int64(len(b.data)), nil }

func (b *blob) MediaType() (types.MediaType, error) { return b.mediaType, nil }
