// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// DigestError says that bytes are not those that were asked for: a registry or
// a mirror that serves the wrong ones, or a transfer that lost some.
type DigestError struct {
	// What was read, such as "layer".
	What string
	// Want and Got are digests.
	Want, Got string
	// WantSize and GotSize are in bytes; WantSize is -1 if the size was not known before.
	WantSize, GotSize int64
}

// Error implements error.
func (e *DigestError) Error() string {
	if e.WantSize >= 0 && e.WantSize != e.GotSize {
		return fmt.Sprintf("%s: got %d bytes, want the %d bytes of %s", e.What, e.GotSize, e.WantSize, e.Want)
	}
	return fmt.Sprintf("%s: the digest of what was read is %s, want %s", e.What, e.Got, e.Want)
}

// verify compares what was read with what was asked for.
func verify(what string, want v1.Descriptor, sum []byte, size int64) error {
	got := v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum)}
	if got == want.Digest && (want.Size < 0 || size == want.Size) {
		return nil
	}
	return &DigestError{What: what, Want: want.Digest.String(), Got: got.String(), WantSize: want.Size, GotSize: size}
}

// tap hashes what is read through it, reads no more than one byte too many, and
// remembers the error of what it reads from.
type tap struct {
	next io.Reader
	hash hash.Hash
	size int64
	most int64
	err  error // other than io.EOF
}

func newTap(body io.Reader, d v1.Descriptor) *tap {
	return &tap{next: body, hash: sha256.New(), most: d.Size + 1}
}

func (t *tap) Read(p []byte) (int, error) {
	if t.size >= t.most {
		return 0, io.EOF
	}
	n, err := t.next.Read(p[:min(int64(len(p)), t.most-t.size)])
	t.hash.Write(p[:n])
	t.size += int64(n)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}

// finish reads what is left and verifies the whole.
func (t *tap) finish(what string, d v1.Descriptor) error {
	if t.err == nil {
		_, _ = io.Copy(io.Discard, t) // its error is in t
	}
	if t.err != nil {
		return t.err
	}
	return verify(what, d, t.hash.Sum(nil), t.size)
}

// errEnough ends the reading of a layer before its end: what was read is bound by another digest.
var errEnough = errors.New("everything needed was seen and verified")

// readLayer projects a layer from its compressed bytes. Nothing of them is
// returned before the last one is verified, unless enough says that what was seen
// is bound by a digest of its own; then the error is errEnough. Whatever is wrong
// with verified bytes is in the projection.
func readLayer(ctx context.Context, d v1.Descriptor, body io.Reader, j *projector, enough func(*projection) bool) (*projection, error) {
	raw := newTap(body, d)
	err := scan(ctx, raw, d.Size, j.limits, func(h *tar.Header, content io.Reader) error {
		if err := j.entry(h, content); err != nil {
			return err
		}
		if enough != nil && d.Size-raw.size > lookahead && enough(j.projection) {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return j.projection, errEnough
	case errors.Is(err, errCrowded):
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := raw.finish("layer", d); err != nil {
		return nil, err
	}
	if err != nil {
		return &projection{broken: newBroken(err)}, nil
	}
	return j.projection, nil
}

// lookahead is how much of a layer is worth reading to its end: less than what a new connection costs.
const lookahead = 64 * kib

// scan decompresses a layer and visits its entries, and reads it to its end.
func scan(ctx context.Context, raw io.Reader, size int64, limits Limits, see func(*tar.Header, io.Reader) error) error {
	plain, err := decompress(ctx, raw)
	if err != nil {
		return err
	}
	defer plain.Close()
	read := int64(0)
	most := max(ratioFloor, size*limits.Ratio)
	stream := readFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := plain.Read(p)
		read += int64(n)
		over := errors.Join(
			within("decompressed bytes of a layer", read, limits.Unpacked),
			within("decompressed bytes of a layer for its size", read, most))
		if over != nil {
			return 0, over
		}
		return n, err
	})
	if err := entries(stream, limits, see); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return fmt.Errorf("reading what follows the archive: %w", err)
	}
	return nil
}

// entries visits the entries of an archive. content is to be read before see returns, if at all.
func entries(stream io.Reader, limits Limits, see func(h *tar.Header, content io.Reader) error) error {
	archive := tar.NewReader(stream)
	for n := 1; ; n++ {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("reading entry %d of the archive: %w", n, err)
		}
		if err := within("archive entries", n, limits.Entries); err != nil {
			return err
		}
		if err := see(h, archive); err != nil {
			return err
		}
	}
}

// readFunc is a function that is an io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// The first bytes of compressed streams.
var magic = []struct {
	start []byte
	name  string
}{
	{[]byte{0x1f, 0x8b}, "gzip"},
	{[]byte{0x28, 0xb5, 0x2f, 0xfd}, "zstd"},
	{[]byte("BZh"), "bzip2"},
	{[]byte{0xfd, '7', 'z', 'X', 'Z', 0}, "xz"},
}

// zstdWindow is the largest window of a zstd stream, and so the memory that
// reading one takes: what the widest used encoder needs at its slowest. zstdAtOnce is
// how many streams are read at once, in the whole process.
const zstdWindow, zstdAtOnce = 32 << 20, 2

var zstdSlots = make(chan struct{}, zstdAtOnce)

// decompress returns the archive in a layer. What compressed it is seen from
// its first bytes: media types lie now and then, and every unpacker looks at the bytes.
func decompress(ctx context.Context, layer io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(layer, 64<<10)
	switch name := compression(r); name {
	case "":
		return io.NopCloser(r), nil
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		return unzstd(ctx, r)
	default:
		return nil, fmt.Errorf("it is compressed with %s, which images do not use", name)
	}
}

// unzstd decompresses a zstd stream when it is its turn.
func unzstd(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	select {
	case zstdSlots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		<-zstdSlots
		return nil, err
	}
	return &zstdStream{d}, nil
}

// zstdStream is a decoder that makes room for the next one.
type zstdStream struct{ *zstd.Decoder }

// Close must be called once.
func (z *zstdStream) Close() error {
	z.Decoder.Close()
	<-zstdSlots
	return nil
}

// skippable is how a zstd stream starts, after one byte, if its first frame is to be skipped.
var skippable = []byte{0x2a, 0x4d, 0x18}

// compression names what compressed a stream, "" if nothing did.
func compression(r *bufio.Reader) string {
	if start, _ := r.Peek(4); len(start) == 4 && start[0]&0xf0 == 0x50 && bytes.Equal(start[1:], skippable) {
		return "zstd"
	}
	for _, m := range magic {
		if start, _ := r.Peek(len(m.start)); bytes.Equal(start, m.start) {
			return m.name
		}
	}
	return ""
}
