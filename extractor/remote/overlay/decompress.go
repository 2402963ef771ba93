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

// zstdWindow is the largest window of a zstd stream, and so the memory that
// reading one takes: as much as the common encoders use at their highest level. zstdAtOnce is
// the number of streams that the process reads at the same time.
const zstdWindow, zstdAtOnce = 32 << 20, 2

var zstdSlots = make(chan struct{}, zstdAtOnce)

// decompress returns the archive in a layer. Its first bytes identify the compression,
// as in every unpacker: media types are wrong now and then.
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

// skippable are the bytes after the first one of a skippable zstd frame.
var skippable = []byte{0x2a, 0x4d, 0x18}

// compression is the name of the compression of a stream; "" for none.
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
