// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/registry"
)

// release holds the references of images, with the same number of each kind.
type release struct {
	// packed have a base, a program and the bundle in a last layer, with a hint.
	packed []string
	// changed are packed, three of them with another bundle.
	changed []string
	// squashed have a base, and the bundle after the program in one layer.
	squashed []string
	// empty have a base and a program.
	empty []string
	// total is the size of the packed ones.
	total int64
}

// block is program text of blockSize bytes, compressed. It compresses to about a half, as programs do.
type block struct{ compressed []byte }

const blockSize = 8 << 20

func newRelease(s *server, images, scale int) (*release, error) {
	b, err := newBlock()
	if err != nil {
		return nil, err
	}
	r := &release{}
	var bases []v1.Descriptor
	for n := range 2 {
		base, err := b.layer(s, fmt.Sprintf("base-%d", n), blocks(75+25*n, scale), nil, nil)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	for n := range images {
		if err := r.add(s, b, bases[n%len(bases)], n, images, scale); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// blocks returns the number of blocks for a compressed size in MB.
func blocks(mb, scale int) int { return max(1, mb*2<<20/blockSize/scale) }

// add adds the n-th image of each kind.
func (r *release) add(s *server, b *block, base v1.Descriptor, n, images, scale int) error {
	size := blocks(60+120*n/images, scale)
	files, err := bundleOf(n, 0)
	if err != nil {
		return err
	}
	newer, err := bundleOf(n, 1)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("p%d", n)
	program, err1 := b.layer(s, "program-"+name, size, nil, nil)
	last, err2 := b.layer(s, "", 0, files, nil)
	lastNewer, err3 := b.layer(s, "", 0, newer, nil)
	after, err4 := b.layer(s, "squashed-"+name, size, nil, files)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return err
		}
	}
	if n >= 3 {
		newer, lastNewer = files, last
	}
	for _, image := range []struct {
		references *[]string
		layers     []v1.Descriptor
		bundles    int
	}{
		{&r.packed, []v1.Descriptor{base, program, last}, 1},
		{&r.changed, []v1.Descriptor{base, program, lastNewer}, 1},
		{&r.squashed, []v1.Descriptor{base, after}, 1},
		{&r.empty, []v1.Descriptor{base, program}, 0},
	} {
		reference, err := s.image("providers/"+name, image.layers, image.bundles)
		if err != nil {
			return err
		}
		*image.references = append(*image.references, reference)
	}
	r.total += base.Size + program.Size + last.Size
	return nil
}

// bundleOf returns the bundle of the n-th image: some hundred KB of YAML.
func bundleOf(n, version int) (extractor.Files, error) {
	var manifests strings.Builder
	for i := range 400 {
		fmt.Fprintf(&manifests, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-%d-%d\n  labels:\n    version: %q\ndata:\n  digest: %s\n  text: %s\n",
			n, i, fmt.Sprint(version), digest.FromString(fmt.Sprint(n, i, version)), strings.Repeat("the description of a field in a schema ", 20))
	}
	return extractor.Bundle{
		Metadata: extractor.Metadata{
			ProviderName: fmt.Sprintf("provider-%d", n), ProviderType: extractor.Infrastructure, ProviderVersion: "v1.0.0", ContentID: digest.FromString(manifests.String()),
		},
		Manifests: []byte(manifests.String()),
	}.Files()
}

func newBlock() (*block, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var text bytes.Buffer
	for text.Len() < blockSize {
		fmt.Fprintf(&text, "%016x", random.Uint64())
	}
	compressed, err := registry.Gzip.Compress(text.Bytes()[:blockSize])
	return &block{compressed}, err
}

// layer returns a layer with the files before, a program of a number of blocks (none if its name is empty), and the files after it.
func (b *block) layer(s *server, program string, blocks int, before, after extractor.Files) (v1.Descriptor, error) {
	var head, tail bytes.Buffer
	if err := writeFiles(&head, before, false); err != nil {
		return v1.Descriptor{}, err
	}
	if program != "" {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/" + program, Mode: 0o755, Size: int64(blocks) * blockSize}
		if err := tar.NewWriter(&head).WriteHeader(header); err != nil {
			return v1.Descriptor{}, err
		}
	}
	if err := writeFiles(&tail, after, true); err != nil {
		return v1.Descriptor{}, err
	}
	first, err := registry.Gzip.Compress(head.Bytes())
	if err != nil {
		return v1.Descriptor{}, err
	}
	last, err := registry.Gzip.Compress(tail.Bytes())
	if err != nil {
		return v1.Descriptor{}, err
	}
	parts := [][]byte{first}
	if program != "" {
		parts = slices.Concat(parts, slices.Repeat([][]byte{b.compressed}, blocks))
	}
	return s.blob(append(parts, last)), nil
}

// writeFiles writes files as archive entries, and the end of the archive.
func writeFiles(out io.Writer, files extractor.Files, end bool) error {
	w := tar.NewWriter(out)
	for _, file := range slices.Backward(slices.Sorted(maps.Keys(files))) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(files[file]))}); err != nil {
			return err
		}
		if _, err := w.Write(files[file]); err != nil {
			return err
		}
	}
	if end {
		return w.Close()
	}
	return w.Flush()
}

// blob makes a layer available.
func (s *server) blob(parts [][]byte) v1.Descriptor {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(part)
	}
	d := v1.Descriptor{MediaType: types.OCILayer, Size: sizeOf(parts), Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", hash.Sum(nil))}}
	s.blobs[d.Digest.String()] = parts
	return d
}

// image makes an image available. Its config names layers that no client reads.
func (s *server) image(repository string, layers []v1.Descriptor, bundles int) (string, error) {
	config := v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: v1.RootFS{Type: "layers"}}
	for _, layer := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.Digest)
	}
	data, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	d := s.blob([][]byte{data})
	d.MediaType = types.OCIConfigJSON
	m := &v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: d, Layers: layers}
	if data, err = json.Marshal(m); err != nil {
		return "", err
	}
	return s.put(repository, m, data, bundles)
}
