// SPDX-License-Identifier: Apache-2.0

package inflate

import (
	"compress/gzip"
	"errors"
	"hash/crc32"
	"io"
)

// The flags of a header: RFC 1952, section 2.3.1.
const (
	flagChecksum = 1 << 1
	flagExtra    = 1 << 2
	flagName     = 1 << 3
	flagComment  = 1 << 4
)

// headerReader reads the header of a member and computes its checksum.
type headerReader struct {
	*Reader
	checksum uint32
	err      error // of the first failure; later calls return zeros
}

// header reads the header of a member, and returns io.EOF at the end of the stream.
func (r *Reader) header() error {
	h := &headerReader{Reader: r}
	first := h.byte()
	if h.err != nil {
		if errors.Is(r.sourceErr, io.EOF) {
			return io.EOF
		}
		return h.err
	}
	isGzip := first == 0x1f && h.byte() == 0x8b && h.byte() == 8
	flags := h.byte()
	for range 6 { // time, extra flags, operating system
		h.byte()
	}
	if h.err == nil && !isGzip {
		return gzip.ErrHeader
	}
	h.options(flags)
	r.checksum, r.size, r.final, r.first = 0, 0, false, r.write
	r.next = (*Reader).block
	return h.err
}

// options skips the optional parts of a header.
func (h *headerReader) options(flags byte) {
	if flags&flagExtra != 0 {
		size := int(h.byte()) | int(h.byte())<<8
		for range size {
			h.byte()
		}
	}
	for _, flag := range []byte{flagName, flagComment} {
		if flags&flag != 0 {
			h.text()
		}
	}
	if flags&flagChecksum == 0 {
		return
	}
	want := h.checksum & 0xffff
	if got := uint32(h.byte()) | uint32(h.byte())<<8; h.err == nil && got != want {
		h.err = gzip.ErrHeader
	}
}

// text skips a text that ends with a zero. compress/gzip limits it, too.
func (h *headerReader) text() {
	const most = 512
	for range most {
		if h.byte() == 0 {
			return
		}
	}
	if h.err == nil {
		h.err = gzip.ErrHeader
	}
}

func (h *headerReader) byte() byte {
	if h.err != nil {
		return 0
	}
	b, err := h.readByte()
	if h.err = err; err != nil {
		return 0
	}
	h.checksum = crc32.Update(h.checksum, crc32.IEEETable, []byte{b})
	return b
}
