// SPDX-License-Identifier: Apache-2.0

// Package inflate decompresses gzip streams, as compress/gzip does, in less than half of the time: reading
// the layers of images is mostly decompression.
//
// The decoder holds 64 bits of input, decodes up to two literals with one table lookup, and writes matches with 8 bytes at
// a time into its window. It checks the checksum and the size of each member of the stream.
package inflate

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"hash/crc32"
	"io"
	"sync"
)

const (
	// history is the largest distance of a match.
	history = 32 << 10
	// window is the size of the output buffer behind the history.
	window = 96 << 10
	// slack is above the number of bytes that one iteration of the decoder may write: 7 literals, and a match of 258
	// bytes with 7 more.
	slack = 288
	// inputSize is the size of the input buffer, and padding that of the zeros after the end of the input.
	inputSize, padding = 128 << 10, 32
	// loaded is the number of bytes that the decoder loads without a check: twice 8.
	loaded = 16
)

// Reader decompresses a stream of one or more gzip members. It is not safe for concurrent use.
type Reader struct {
	source    io.Reader
	sourceErr error // of all further reads; io.EOF at the end

	input    [inputSize + padding]byte // the unread input is [position:end]; zeros follow at the end of the stream
	position int
	end      int
	safe     int   // the last position from which loaded bytes can be loaded; zeros are loaded only after the end of the stream
	consumed int64 // bytes before input[0]
	bits     uint64
	count    uint // of valid bits

	output [history + window]byte
	first  int // the start of the member, or 0
	write  int // the end of the decompressed bytes
	read   int // the end of those that Read has returned

	next     func(*Reader) error // decodes more
	final    bool                // the current block is the last one of its member
	stored   int                 // bytes left in a stored block
	literals literalTable
	offsets  offsetTable
	lengths  [maxSymbols]uint8 // code lengths of the current block

	checksum uint32
	size     uint32 // of the member, modulo 2^32
	err      error  // of all further calls of Read
}

// pool has closed Readers. A Reader takes 280 KiB, and an image has many small layers.
var pool = sync.Pool{New: func() any { return &Reader{} }}

// NewReader reads the header of the first member. Errors are those of compress/gzip.
func NewReader(source io.Reader) (*Reader, error) {
	r := pool.Get().(*Reader)
	r.source, r.sourceErr, r.err = source, nil, nil
	r.position, r.end, r.safe, r.consumed = 0, 0, 0, 0
	r.bits, r.count = 0, 0
	r.first, r.write, r.read = 0, 0, 0
	if err := r.header(); err != nil {
		_ = r.Close() // it returns no error
		return nil, err
	}
	return r, nil
}

// Close releases the memory of the Reader, which must not be used afterwards. Further calls do nothing.
func (r *Reader) Close() error {
	if r.source != nil {
		r.source = nil
		pool.Put(r)
	}
	return nil
}

// Read implements io.Reader. It returns io.EOF after the checksum of the last member was verified.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.read == r.write {
		if r.err != nil {
			return 0, r.err
		}
		r.decode()
	}
	n := copy(p, r.output[r.read:r.write])
	r.read += n
	return n, nil
}

// decode decodes until there is output or an error.
func (r *Reader) decode() {
	if r.write > len(r.output)-2*slack {
		copy(r.output[:], r.output[r.write-history:r.write])
		r.first = max(0, r.first-(r.write-history))
		r.write, r.read = history, history
	}
	start := r.write
	for r.err == nil && r.write == start {
		r.err = r.next(r)
	}
	if err := r.overrun(); err != nil {
		r.err, r.write = err, start // zeros were decoded after the end of the input
	}
	r.checksum = crc32.Update(r.checksum, crc32.IEEETable, r.output[start:r.write])
	r.size += uint32(r.write - start)
}

// corrupt returns the error for invalid input at the current position.
func (r *Reader) corrupt() error {
	return flate.CorruptInputError(r.consumed + int64(r.position) - int64(r.count/8))
}

// fill reads input until there are more than loaded bytes or the input ends. Bytes that are in bits already are kept: unload needs them.
func (r *Reader) fill() {
	if r.sourceErr != nil {
		return
	}
	kept := min(r.position, loaded)
	from := r.position - kept
	copy(r.input[:], r.input[from:r.end])
	r.consumed += int64(from)
	r.position, r.end = kept, r.end-from
	for empty := 0; r.sourceErr == nil && r.end-r.position <= loaded; {
		n, err := r.source.Read(r.input[r.end:inputSize])
		r.end += n
		r.sourceErr = err
		if empty++; n > 0 {
			empty = 0
		}
		if empty == 100 {
			r.sourceErr = io.ErrNoProgress
		}
	}
	clear(r.input[r.end : r.end+padding])
	r.safe = r.end - loaded
	if r.sourceErr != nil {
		r.safe = r.end + padding - loaded
	}
}

// refill reads more input, so that the position is safe.
func (r *Reader) refill() error {
	r.fill()
	if r.position > r.safe {
		return r.endOfInput()
	}
	return nil
}

// load loads at least 56 bits.
func (r *Reader) load() (err error) {
	c := cursor{r.position, r.bits, r.count}
	if c.position > r.safe {
		if c, err = r.refilled(c, r.write); err != nil {
			return err
		}
	}
	r.save(c.load(&r.input), r.write)
	return nil
}

// endOfInput returns the error for truncated input, or that of the source.
func (r *Reader) endOfInput() error {
	if r.sourceErr == nil || errors.Is(r.sourceErr, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return r.sourceErr
}

// overrun returns an error if more bits were used than the input has.
func (r *Reader) overrun() error {
	if r.position-int(r.count/8) > r.end {
		return r.endOfInput()
	}
	return nil
}

// take removes bits that were loaded.
func (r *Reader) take(n uint) uint64 {
	value := r.bits & (1<<n - 1)
	r.bits >>= n
	r.count -= n
	return value
}

// unload drops the rest of the current byte, and puts whole bytes back into the input.
func (r *Reader) unload() {
	r.position -= int(r.count / 8)
	r.bits, r.count = 0, 0
}

// readByte returns the next byte of the input; bits must be unloaded.
func (r *Reader) readByte() (byte, error) {
	if r.position >= r.end {
		if r.fill(); r.position >= r.end {
			return 0, r.endOfInput()
		}
	}
	b := r.input[r.position]
	r.position++
	return b, nil
}

// readLittleEndian reads a number of size bytes.
func (r *Reader) readLittleEndian(size int) (value uint32, err error) {
	for i := range size {
		b, err := r.readByte()
		if err != nil {
			return 0, err
		}
		value |= uint32(b) << (8 * i)
	}
	return value, nil
}

// trailer verifies a member and reads the header of the next one.
func (r *Reader) trailer() error {
	r.unload()
	if err := r.overrun(); err != nil {
		return err
	}
	checksum, err := r.readLittleEndian(4)
	if err != nil {
		return err
	}
	size, err := r.readLittleEndian(4)
	switch {
	case err != nil:
		return err
	case checksum != r.checksum || size != r.size:
		return gzip.ErrChecksum
	}
	return r.header()
}
