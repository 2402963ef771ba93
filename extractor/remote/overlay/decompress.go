// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
)

// readFunc implements io.Reader.
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
	{[]byte(xzMagic), "xz"},
}

// zstdWindow is the maximum window of a zstd stream, and so the memory of its decoder: the window of the common
// encoders at their highest level.
const zstdWindow = 32 << 20

// decoderMemory is the memory of all decoders of the process: one xz stream or two zstd streams at a time.
var decoderMemory = semaphore.NewWeighted(2 * zstdWindow)

// acquireMemory waits for the memory of a decoder, and calls waited with the time. The caller must call release.
func acquireMemory(ctx context.Context, size int64, waited func(time.Duration)) (release func(), err error) {
	started := time.Now()
	if err := decoderMemory.Acquire(ctx, size); err != nil {
		return nil, context.Cause(ctx)
	}
	waited(time.Since(started))
	return func() { decoderMemory.Release(size) }, nil
}

// readCloser is a decoder with the release of its memory. Close must be called once.
type readCloser struct {
	io.Reader
	release func()
}

// Close implements io.Closer.
func (r readCloser) Close() error {
	r.release()
	return nil
}

// decompress returns the archive in a layer. Its first bytes identify the compression, as in other unpackers, because
// media types are sometimes wrong.
func decompress(ctx context.Context, layer io.Reader, waited func(time.Duration)) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(layer, 64<<10)
	switch compression(r) {
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		return unzstd(ctx, r, waited)
	case "bzip2":
		return io.NopCloser(bzip2.NewReader(r)), nil
	case "xz":
		return unxz(ctx, r, waited)
	default:
		return io.NopCloser(r), nil
	}
}

// unzstd decompresses a zstd stream.
func unzstd(ctx context.Context, r io.Reader, waited func(time.Duration)) (io.ReadCloser, error) {
	release, err := acquireMemory(ctx, zstdWindow, waited)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		release()
		return nil, err
	}
	return readCloser{d, func() { d.Close(); release() }}, nil
}

// skippable are the second to fourth bytes of a skippable zstd frame.
var skippable = []byte{0x2a, 0x4d, 0x18}

// compression returns the name of the compression of a stream; "" if it is not compressed.
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
