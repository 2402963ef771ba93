// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/test/registry"
)

// tight are limits that make every input cheap.
var tight = overlay.Limits{Unpacked: 4 << 20, Entries: 1000, Depth: 32, Files: 200, Total: 1 << 20}

// FuzzLayers reads two layers from a registry, compressed or not.
// For every input the result has clean paths at and below the
// roots with contents within the limits, or is an error of the image.
func FuzzLayers(f *testing.F) {
	for _, test := range refusals {
		if len(test.entries) < 10 {
			f.Add(mustTar(f, test.entries...), mustTar(f, registry.Whiteout(root)))
		}
	}
	shipped := mustTar(f, filesIn(f, root, aws(manifests))...)
	f.Add(shipped, gzipped(f, mustTar(f, registry.Opaque(root))))
	f.Add(gzipped(f, shipped), sparse("capi-manifests/metadata.json", "1099511627776"))
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		if len(lower) == 0 || len(upper) == 0 {
			return
		}
		files, err := unpackBlobs(t, lower, upper)
		if err != nil {
			if files != nil {
				t.Errorf("there are files beside the error %v", err)
			}
			return
		}
		for file, data := range files {
			checkFile(t, file, data)
		}
	})
}

func checkFile(t *testing.T, file string, data []byte) {
	t.Helper()
	name := strings.TrimSuffix(file, "/")
	first, _, _ := strings.Cut(name, "/")
	if name != path.Clean(name) || first != "capi-manifests" && first != "capi-operator-manifests" {
		t.Errorf("%q is not a clean path below a root", file)
	}
	if most := extractor.Limit(file); int64(len(data)) > most+1 || most == 0 && len(data) > 0 {
		t.Errorf("%q has %d bytes", file, len(data))
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		t.Errorf("%q is not printable", file)
	}
}

// unpackBlobs unpacks blobs with their actual digests.
func unpackBlobs(t *testing.T, blobs ...[]byte) (extractor.Files, error) {
	t.Helper()
	m := &imageManifest{}
	held := map[v1.Hash][]byte{}
	for _, data := range blobs {
		digest, size, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		m.layers = append(m.layers, v1.Descriptor{Digest: digest, Size: size, MediaType: types.OCILayer})
		held[digest] = data
	}
	u := &imageReader{limits: Limits{Contents: tight}.withDefaults(), cache: &layerCache{}}
	u.readBlob = func(_ context.Context, _ string, d v1.Descriptor, read func(io.Reader) error) error {
		return read(bytes.NewReader(held[d.Digest]))
	}
	return u.readFiles(t.Context(), m)
}

// FuzzManifest reads manifests and indexes, whose bytes are verified but whose content is arbitrary.
func FuzzManifest(f *testing.F) {
	raw, err := registry.MustImage(f, registry.Layer{Txtar: "-- a --\n"}).RawManifest()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"size":1,"platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		index, err := parseIndex(data)
		if err == nil && index != nil {
			_, _ = pickPlatform(data, index, v1.Platform{})
			return
		}
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		u := &imageReader{limits: Limits{Contents: tight}.withDefaults()}
		invalid := func(layer v1.Descriptor) bool {
			return layer.Size < 0 || digest.Digest(layer.Digest.String()).Validate() != nil
		}
		if u.checkManifest(m) == nil && slices.ContainsFunc(m.layers, invalid) {
			t.Errorf("accepted %s", data)
		}
	})
}
