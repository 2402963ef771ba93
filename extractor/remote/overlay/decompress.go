// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
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
	{[]byte{0xfd, '7', 'z', 'X', 'Z', 0}, "xz"},
}

// zstdWindow is the maximum window of a zstd stream, and so the memory of its decoder: the window of the common
// encoders at their highest level. zstdAtOnce is the maximum number of zstd streams that the process reads
// concurrently.
const zstdWindow, zstdAtOnce = 32 << 20, 2

var zstdSlots = make(chan struct{}, zstdAtOnce)

// decompress returns the archive in a layer. Its first bytes identify the compression, as in other unpackers, because
// media types are sometimes wrong.
func decompress(ctx context.Context, layer io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(layer, 64<<10)
	switch name := compression(r); name {
	case "":
		return io.NopCloser(r), nil
	case "gzip":
		return gzip.NewReader(r)
	case "zstd":
		return unzstd(ctx, r)
	case "bzip2":
		return io.NopCloser(bzip2.NewReader(r)), nil
	default:
		return nil, fmt.Errorf("unsupported compression %s: want gzip, zstd or bzip2", name)
	}
}

// unzstd decompresses a zstd stream, at most zstdAtOnce at a time.
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

// zstdStream is a decoder that holds one of zstdSlots.
type zstdStream struct{ *zstd.Decoder }

// Close must be called once.
func (z *zstdStream) Close() error {
	z.Decoder.Close()
	<-zstdSlots
	return nil
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
