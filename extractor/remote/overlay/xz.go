// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"slices"
	"time"

	"github.com/ulikunitz/xz/lzma"
)

// xzDictionary is the maximum dictionary of a block of an xz stream, and so the memory of its decoder. A block can declare a larger
// one, as "xz -9" always does, but not refer to content further back.
const xzDictionary = 32 << 20

// unxz decompresses xz streams (https://tukaani.org/xz/xz-file-format.txt), as the package xz of the library does. That
// package allocates each dictionary that a block declares, up to 4 GiB for 16 bytes. So the container is read here, and
// the library decodes the blocks.
func unxz(ctx context.Context, r *bufio.Reader, waited func(time.Duration)) (io.ReadCloser, error) {
	release, err := acquireMemory(ctx, 2*xzDictionary, waited) // for a dictionary, and for the one before
	if err != nil {
		return nil, err
	}
	x := &xzReader{in: &xzInput{Reader: r}}
	return readCloser{x, release}, nil
}

// xzReader reads the contents of xz streams.
type xzReader struct {
	in     *xzInput
	stream *xzStream // nil between streams
	block  *xzBlock  // nil between blocks

	dictionaries, unpacked int64 // sizes of all dictionaries, and of all contents so far
}

// xzStream is what a stream says about its blocks at its start and repeats at its end.
type xzStream struct {
	flags   []byte
	records int64
	hash    hash.Hash // of the sizes of the blocks
}

func (s *xzStream) add(packed, unpacked int64) {
	s.records++
	_ = binary.Write(s.hash, binary.BigEndian, []int64{packed, unpacked}) // a hash accepts every write
}

// xzBlock is a block whose contents are being read.
type xzBlock struct {
	contents                 io.Reader
	check                    hash.Hash // of the contents; nil for none
	header, start            int64     // size of the header, and position after it
	unpacked                 int64
	wantPacked, wantUnpacked int64 // according to the header; -1 for unknown
	short                    bool  // the dictionary is smaller than declared
}

var (
	errXZFormat = errors.New("invalid xz stream")
	errXZFilter = errors.New("unsupported filter of an xz stream: want LZMA2")
	errXZSum    = errors.New("wrong checksum in an xz stream")
)

// Read implements io.Reader.
func (x *xzReader) Read(p []byte) (int, error) {
	for {
		for x.block == nil {
			if err := x.next(); err != nil {
				return 0, err
			}
		}
		n, err := x.block.read(p)
		x.unpacked += int64(n)
		if errors.Is(err, io.EOF) {
			err = x.endBlock()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next reads the beginning of a stream or a block, or the end of a stream. The error is io.EOF after the last stream.
func (x *xzReader) next() error {
	if x.stream == nil {
		return x.beginStream()
	}
	start := x.in.read
	x.in.begin()
	size, err := x.in.full(1)
	switch {
	case err != nil:
		return err
	case size[0] == 0:
		return x.endStream(start)
	}
	return x.beginBlock(start, int(size[0])*4-1)
}

// beginStream reads the header of a stream, and the padding before it.
func (x *xzReader) beginStream() error {
	const padding = "\x00\x00\x00\x00"
	next, err := x.in.Peek(len(padding))
	for ; err == nil && string(next) == padding; next, err = x.in.Peek(len(padding)) {
		_, _ = x.in.full(len(padding)) // it was peeked
	}
	if err != nil && len(next) == 0 {
		return err
	}
	magic, err := x.in.full(6)
	if err != nil {
		return err
	}
	x.in.begin()
	flags, err := x.in.full(2)
	if err == nil {
		err = x.in.sum()
	}
	if _, known := newXZCheck(flags[1]); err == nil && (string(magic) != xzMagic || flags[0] != 0 || !known) {
		err = errXZFormat
	}
	x.stream = &xzStream{flags: flags, hash: sha256.New()}
	return err
}

const xzMagic, xzEnd = "\xfd7zXZ\x00", "YZ"

// newXZCheck returns the hash of a kind; nil for the kind without one.
func newXZCheck(kind byte) (_ hash.Hash, known bool) {
	switch kind {
	case 0:
		return nil, true
	case 1:
		return crc32.NewIEEE(), true
	case 4:
		return crc64.New(crc64.MakeTable(crc64.ECMA)), true
	case 10:
		return sha256.New(), true
	}
	return nil, false
}

// beginBlock reads the header of a block, of size bytes without its first byte and its checksum.
func (x *xzReader) beginBlock(start int64, size int) error {
	header, err := x.in.full(size)
	if err == nil {
		err = x.in.sum()
	}
	if err != nil {
		return err
	}
	block, dictionary, err := parseXZBlock(header)
	if err != nil {
		return err
	}
	block.short = dictionary > xzDictionary
	dictionary = min(dictionary, xzDictionary)
	if err := x.addDictionary(dictionary); err != nil {
		return err
	}
	block.header, block.start = x.in.read-start, x.in.read
	block.check, _ = newXZCheck(x.stream.flags[1])
	block.contents, err = lzma.Reader2Config{DictCap: int(dictionary)}.NewReader2(x.in)
	x.block = block
	return err
}

// addDictionary limits the time to allocate the dictionaries of many blocks with little content.
func (x *xzReader) addDictionary(size int64) error {
	x.dictionaries += size
	return CheckLimit("bytes of the dictionaries of xz blocks for their content", x.dictionaries, 2*xzDictionary+x.unpacked)
}

// parseXZBlock parses the header of a block between its size and its checksum, and returns the size of its dictionary.
func parseXZBlock(header []byte) (_ *xzBlock, dictionary int64, err error) {
	const (
		filters, reserved      = 0x03, 0x3c
		hasPacked, hasUnpacked = 0x40, 0x80
		lzma2                  = "\x21\x01" // with one byte of properties
	)
	r := bytes.NewReader(header[1:])
	b := &xzBlock{wantPacked: -1, wantUnpacked: -1}
	if header[0]&hasPacked != 0 {
		b.wantPacked, err = xzNumber(r)
	}
	if err == nil && header[0]&hasUnpacked != 0 {
		b.wantUnpacked, err = xzNumber(r)
	}
	rest := header[len(header)-r.Len():]
	switch {
	case err != nil || header[0]&reserved != 0:
		return nil, 0, errXZFormat
	case header[0]&filters != 0 || len(rest) < 3 || string(rest[:2]) != lzma2:
		return nil, 0, errXZFilter
	}
	dictionary, err = lzma.DecodeDictCap(rest[2])
	if err != nil || !zeros(rest[3:]) {
		return nil, 0, errXZFormat
	}
	if b.wantUnpacked >= 0 { // more is never needed
		dictionary = min(dictionary, max(b.wantUnpacked, lzma.MinDictCap))
	}
	return b, dictionary, nil
}

func (b *xzBlock) read(p []byte) (int, error) {
	n, err := b.contents.Read(p)
	b.unpacked += int64(n)
	if b.check != nil {
		b.check.Write(p[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) && b.short {
		err = fmt.Errorf("%w (the dictionary is limited to %d bytes)", err, xzDictionary)
	}
	return n, err
}

// endBlock reads the end of a block, and compares it with the contents.
func (x *xzReader) endBlock() error {
	b := x.block
	x.block = nil
	packed := x.in.read - b.start
	if b.wantUnpacked >= 0 && b.wantUnpacked != b.unpacked || b.wantPacked >= 0 && b.wantPacked != packed {
		return errXZFormat
	}
	if err := x.in.padding(packed); err != nil {
		return err
	}
	var got []byte
	if b.check != nil {
		got = b.check.Sum(nil)
		if len(got) <= crc64.Size {
			slices.Reverse(got) // CRCs are little-endian
		}
	}
	want, err := x.in.full(len(got))
	if err == nil && !bytes.Equal(got, want) {
		err = errXZSum
	}
	x.stream.add(b.header+packed+int64(len(want)), b.unpacked)
	return err
}

// endStream reads the index, after its first byte at start, and the footer.
func (x *xzReader) endStream(start int64) error {
	stream := x.stream
	x.stream = nil
	n, err := xzNumber(x.in)
	if err != nil || n != stream.records {
		return errors.Join(err, errXZFormat)
	}
	index := xzStream{hash: sha256.New()}
	for range n {
		packed, err := xzNumber(x.in)
		if err != nil {
			return err
		}
		unpacked, err := xzNumber(x.in)
		if err != nil {
			return err
		}
		index.add(packed, unpacked)
	}
	if err := x.in.padding(x.in.read - start); err != nil {
		return err
	}
	if err := x.in.sum(); err != nil {
		return err
	}
	if !bytes.Equal(index.hash.Sum(nil), stream.hash.Sum(nil)) {
		return errXZFormat
	}
	return x.in.footer(x.in.read-start, stream.flags)
}

// xzNumber reads a number of variable length.
func xzNumber(r io.ByteReader) (int64, error) {
	n, err := binary.ReadUvarint(r)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && n >= 1<<63 {
		err = errXZFormat
	}
	return int64(n), err //nolint:gosec // it has at most 63 bits
}

// xzInput counts the bytes that are read, and computes checksums.
type xzInput struct {
	*bufio.Reader
	read int64
	crc  hash.Hash32 // since begin
}

// Read implements io.Reader.
func (x *xzInput) Read(p []byte) (int, error) {
	n, err := x.Reader.Read(p)
	x.read += int64(n)
	if x.crc != nil {
		x.crc.Write(p[:n])
	}
	return n, err
}

// ReadByte implements io.ByteReader.
func (x *xzInput) ReadByte() (byte, error) {
	var p [1]byte
	_, err := io.ReadFull(x, p[:])
	return p[0], err
}

// full reads n bytes; fewer are an error.
func (x *xzInput) full(n int) ([]byte, error) {
	p := make([]byte, n)
	_, err := io.ReadFull(x, p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// begin begins a checksum.
func (x *xzInput) begin() { x.crc = crc32.NewIEEE() }

// sum ends a checksum, and compares it with the one that follows.
func (x *xzInput) sum() error {
	want := x.crc.Sum32()
	x.crc = nil
	got, err := x.full(crc32.Size)
	if err == nil && binary.LittleEndian.Uint32(got) != want {
		err = errXZSum
	}
	return err
}

// padding reads the zeros after size bytes, up to a multiple of four.
func (x *xzInput) padding(size int64) error {
	p, err := x.full(int(-size & 3))
	if err == nil && !zeros(p) {
		err = errXZFormat
	}
	return err
}

// footer reads the end of a stream with an index of a size, and compares it with the flags in the header.
func (x *xzInput) footer(index int64, flags []byte) error {
	want, err := x.full(crc32.Size)
	if err != nil {
		return err
	}
	x.begin()
	footer, err := x.full(6)
	if err != nil {
		return err
	}
	got := x.crc.Sum32()
	x.crc = nil
	end, err := x.full(len(xzEnd))
	switch {
	case err != nil:
		return err
	case binary.LittleEndian.Uint32(want) != got:
		return errXZSum
	case int64(binary.LittleEndian.Uint32(footer))*4+4 != index || !bytes.Equal(footer[4:], flags) || string(end) != xzEnd:
		return errXZFormat
	}
	return nil
}

func zeros(p []byte) bool { return len(bytes.Trim(p, "\x00")) == 0 }
