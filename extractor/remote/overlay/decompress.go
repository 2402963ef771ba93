// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

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
	{[]byte("\xfd7zXZ\x00"), "xz"},
}

// zstdWindow is the maximum window of a zstd stream, and so the memory of its decoder: the window of the common
// encoders at their highest level.
const zstdWindow = 32 << 20

// decoders is the number of zstd streams that the process decodes at a time, because of their memory.
var decoders = semaphore.NewWeighted(2)

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
func decompress(ctx context.Context, layer io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(layer, 64<<10)
	switch format := compression(r); format {
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		return unzstd(ctx, r)
	case "":
		return io.NopCloser(r), nil
	default:
		return nil, fmt.Errorf("the layer has the compression %s: want gzip, zstd or none", format)
	}
}

// unzstd decompresses a zstd stream.
func unzstd(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	if err := decoders.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	release := func() { decoders.Release(1) }
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
