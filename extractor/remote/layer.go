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
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/capi-installer/capi-installer/extractor"
)

// inMemory is the size up to which a layer waits in memory for its
// verification; a larger one waits in a temporary file without a name.
const inMemory = 8 * mib

// spool is a layer as the registry holds it, verified.
type spool struct {
	io.ReaderAt
	size  int64
	close func() error
}

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

// fill reads a blob to its end and verifies it. dir is where temporary files go.
func fill(dir, what string, d v1.Descriptor, body io.Reader) (*spool, error) {
	hash := sha256.New()
	body = io.TeeReader(io.LimitReader(body, d.Size+1), hash)
	s, size, err := hold(dir, d.Size, body)
	if err != nil {
		return nil, err
	}
	if err := verify(what, d, hash.Sum(nil), size); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// hold copies body, of which size bytes are expected, to memory or to a file.
func hold(dir string, size int64, body io.Reader) (*spool, int64, error) {
	if size <= inMemory {
		data, err := io.ReadAll(body)
		return &spool{bytes.NewReader(data), int64(len(data)), func() error { return nil }}, int64(len(data)), err
	}
	file, err := os.CreateTemp(dir, "layer-*")
	if err != nil {
		return nil, 0, fmt.Errorf("making a temporary file for a layer of %d bytes: %w", size, err)
	}
	// Without a name nobody else opens it, and nothing stays behind when the process is killed.
	err = os.Remove(file.Name())
	var n int64
	if err == nil {
		n, err = io.Copy(file, body)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return &spool{file, n, file.Close}, n, nil
}

// budget is what is left of the limits while an image is read.
type budget struct {
	limits   Limits
	unpacked int64
	entries  int
	kept     int64
}

// visit is called with the entries of a layer in their order, counted from 0.
// content is to be read before it returns, if at all.
type visit func(entry int, h *tar.Header, content io.Reader) error

// scan decompresses a layer, compares it with its diff ID if there is one, and visits its entries.
func (s *spool) scan(ctx context.Context, b *budget, diffID v1.Hash, see visit) error {
	plain, err := decompress(io.NewSectionReader(s, 0, s.size))
	if err != nil {
		return err
	}
	defer plain.Close()
	hash := sha256.New()
	read := int64(0)
	most := max(ratioFloor, s.size*b.limits.Ratio)
	stream := io.TeeReader(readFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := plain.Read(p)
		read += int64(n)
		if over := errors.Join(b.unpack(n), within("decompressed bytes of a layer for its size", read, most)); over != nil {
			return 0, over
		}
		return n, err
	}), hash)
	if err := entries(stream, b, see); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return fmt.Errorf("reading what follows the archive: %w", err)
	}
	return verify("decompressed layer", v1.Descriptor{Digest: diffID, Size: -1}, hash.Sum(nil), read)
}

// entries visits the entries of an archive.
func entries(stream io.Reader, b *budget, see visit) error {
	archive := tar.NewReader(stream)
	for n := 0; ; n++ {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("reading entry %d of the archive: %w", n+1, err)
		}
		b.entries++
		if err := within("archive entries", b.entries, b.limits.Entries); err != nil {
			return err
		}
		if err := see(n, h, archive); err != nil {
			return err
		}
	}
}

// unpack counts decompressed bytes.
func (b *budget) unpack(n int) error {
	b.unpacked += int64(n)
	return within("decompressed bytes of an image", b.unpacked, b.limits.Unpacked)
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

// zstdWindow is the largest window of a zstd stream, and so the memory that reading one takes.
const zstdWindow = 128 << 20

// decompress returns the archive in a layer. What compressed it is seen from
// its first bytes: media types lie now and then, and every unpacker looks at the bytes.
func decompress(layer io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(layer, 64<<10)
	switch name := compression(r); name {
	case "":
		return io.NopCloser(r), nil
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return nil, &extractor.InvalidError{Err: fmt.Errorf("it is compressed with %s, which images do not use", name)}
	}
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
