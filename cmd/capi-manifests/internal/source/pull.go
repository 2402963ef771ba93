// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.podman.io/image/v5/manifest"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/internal/lazyimage"
)

// Pull returns the image or the index of a reference by digest. Its manifests and layers are read when they are needed, until
// ctx ends.
func Pull(ctx context.Context, client *fetch.Client, reference string) (mutate.Appendable, error) {
	ref, err := name.NewDigest(reference)
	if err != nil {
		return nil, err
	}
	image, err := client.Open(ctx, ref.Name())
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", ref.Name(), err)
	}
	store := &registryStore{ctx: ctx, image: image}
	d := v1.Descriptor{Digest: image.Digest(), Size: -1}
	raw, err := store.Manifest(d)
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", ref.Name(), WithAdvice(err, ref.Context()))
	}
	d.Size, d.MediaType = int64(len(raw)), types.MediaType(manifest.GuessMIMEType(raw))
	switch entry, err := lazyimage.Open(store, d); entry := entry.(type) {
	case v1.ImageIndex:
		return &pulledIndex{entry, ref}, nil
	case v1.Image:
		return &pulledImage{entry, ref}, nil
	default:
		return nil, err
	}
}

// Find returns the image or the index of a tag or a digest; nil if no source has it.
func Find(ctx context.Context, client *fetch.Client, ref name.Reference) (mutate.Appendable, error) {
	reference, err := Resolve(ctx, client, ref.Name())
	if err != nil {
		return nil, ifFound(err)
	}
	found, err := Pull(ctx, client, reference)
	return found, ifFound(err)
}

// Referrers returns the manifests that refer to one, such as signatures and attestations.
func Referrers(ctx context.Context, client *fetch.Client, ref name.Digest) ([]v1.Descriptor, error) {
	image, err := client.Open(ctx, ref.Name())
	if err != nil {
		return nil, err
	}
	raw, err := image.Referrers(ctx, ref.DigestStr(), MaxManifest)
	if err != nil {
		return nil, ifFound(WithAdvice(err, ref.Context()))
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("parsing the referrers: %w", err)
	}
	return index.Manifests, nil
}

// ifFound returns nil if no source has what was requested.
func ifFound(err error) error {
	if fetch.IsNotFound(err) {
		return nil
	}
	return err
}

// registryStore implements lazyimage.Store with the sources of an image.
type registryStore struct {
	ctx   context.Context //nolint:containedctx // the interfaces of go-containerregistry have no context
	image *fetch.Image
}

func (s *registryStore) Manifest(d v1.Descriptor) ([]byte, error) {
	return s.image.Manifest(s.ctx, "manifest", d, MaxManifest)
}

func (s *registryStore) Config(d v1.Descriptor) (raw []byte, err error) {
	if d.Size > MaxManifest {
		return nil, &lazyimage.InvalidError{Err: fmt.Errorf("the config has %d bytes, more than the limit of %d", d.Size, MaxManifest)}
	}
	err = s.image.Blob(s.ctx, "config", d, MaxManifest, func(body io.Reader) (err error) {
		raw, err = io.ReadAll(body)
		return err
	})
	return raw, err
}

// Layer implements lazyimage.Store. Its bytes end with io.EOF only after they were verified.
func (s *registryStore) Layer(d v1.Descriptor) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	r, w := io.Pipe()
	go func() {
		sent := &delivery{to: w, sum: sha256.New()}
		w.CloseWithError(s.image.Blob(ctx, "layer", d, d.Size, sent.deliver))
	}()
	return &layerBody{r, cancel}, nil
}

// layerBody is a layer that is being read.
type layerBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends the request.
func (b *layerBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// delivery writes a blob once, although it is read from its start again when a source fails.
type delivery struct {
	to   io.Writer
	sent int64
	sum  hash.Hash // of the sent bytes
}

var errOtherBytes = errors.New("the sources of the layer have different bytes")

func (d *delivery) deliver(body io.Reader) error {
	again := sha256.New()
	if _, err := io.CopyN(again, body, d.sent); err != nil {
		return err
	}
	if !bytes.Equal(again.Sum(nil), d.sum.Sum(nil)) {
		return errOtherBytes
	}
	_, err := io.Copy(d, body)
	return err
}

// Write implements io.Writer.
func (d *delivery) Write(p []byte) (int, error) {
	n, err := d.to.Write(p)
	d.sent += int64(n)
	d.sum.Write(p[:n])
	return n, err
}

// pulledImage is an image whose layers a push to the same registry mounts instead of copying them.
type pulledImage struct {
	v1.Image
	from name.Reference
}

// Layers implements v1.Image.
func (i *pulledImage) Layers() ([]v1.Layer, error) {
	layers, err := i.Image.Layers()
	for n, layer := range layers {
		layers[n] = &ggcr.MountableLayer{Layer: layer, Reference: i.from}
	}
	return layers, err
}

// pulledIndex is an index of such images.
type pulledIndex struct {
	index
	from name.Reference
}

// index has another name than one of its methods.
type index = v1.ImageIndex

var _ v1.ImageIndex = &pulledIndex{}

// Image implements v1.ImageIndex.
func (i *pulledIndex) Image(digest v1.Hash) (v1.Image, error) {
	image, err := i.index.Image(digest)
	if err != nil {
		return nil, err
	}
	return &pulledImage{image, i.from}, nil
}
