// SPDX-License-Identifier: Apache-2.0

package inflate

import "encoding/binary"

// block reads the header of the next block: RFC 1951, section 3.2.3.
func (r *Reader) block() error {
	if r.final {
		return r.trailer()
	}
	if err := r.load(); err != nil {
		return err
	}
	r.final = r.take(1) == 1
	var err error
	switch r.take(2) {
	case 0:
		err = r.startStored()
	case 1:
		r.startFixed()
	case 2:
		err = r.startDynamic()
	default:
		err = r.corrupt()
	}
	if short := r.overrun(); short != nil {
		return short
	}
	return err
}

// startStored reads the header of a stored block.
func (r *Reader) startStored() error {
	r.unload()
	if err := r.overrun(); err != nil {
		return err
	}
	header, err := r.readLittleEndian(4)
	if err != nil {
		return err
	}
	if header&0xffff != ^header>>16 {
		return r.corrupt()
	}
	r.stored = int(header & 0xffff)
	r.next = (*Reader).copyStored
	return nil
}

// copyStored copies bytes of a stored block.
func (r *Reader) copyStored() error {
	if r.stored == 0 {
		r.next = (*Reader).block
		return nil
	}
	if r.position >= r.end {
		if r.fill(); r.position >= r.end {
			return r.endOfInput()
		}
	}
	most := min(r.stored, r.end-r.position)
	n := copy(r.output[r.write:len(r.output)-slack], r.input[r.position:r.position+most])
	r.position += n
	r.write += n
	r.stored -= n
	return nil
}

// startFixed starts a block with the fixed codes: RFC 1951, section 3.2.6.
func (r *Reader) startFixed() {
	lengths := &r.lengths
	for i := range literalSymbols {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	_ = r.literals.build(lengths[:literalSymbols]) // the code is complete
	var offsets [32]uint8
	for i := range offsets {
		offsets[i] = 5
	}
	_ = r.offsets.build(offsets[:])
	r.next = (*Reader).huffman
}

// lengthOrder is the order of the code lengths of code lengths.
var lengthOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// startDynamic reads the codes of a block: RFC 1951, section 3.2.7.
func (r *Reader) startDynamic() error {
	literals, offsets, count := int(r.take(5))+257, int(r.take(5))+1, int(r.take(4))+4
	if literals > 286 || offsets > 30 {
		return r.corrupt()
	}
	var codes [19]uint8
	for i := range count {
		if err := r.load(); err != nil {
			return err
		}
		codes[lengthOrder[i]] = uint8(r.take(3))
	}
	var table lengthTable
	if !table.build(codes[:]) {
		return r.corrupt()
	}
	if err := r.readLengths(&table, literals+offsets); err != nil {
		return err
	}
	if !r.literals.build(r.lengths[:literals]) || !r.offsets.build(r.lengths[literals:literals+offsets]) {
		return r.corrupt()
	}
	r.next = (*Reader).huffman
	return nil
}

// readLengths reads the code lengths of literals and offsets, which are one list.
func (r *Reader) readLengths(table *lengthTable, count int) error {
	for i := 0; i < count; {
		if err := r.load(); err != nil {
			return err
		}
		e := table[r.bits&(1<<lengthBits-1)]
		if e == 0 {
			return r.corrupt()
		}
		r.take(uint(e & 15))
		symbol := uint8(e >> 4)
		if symbol < 16 {
			r.lengths[i] = symbol
			i++
			continue
		}
		value, repeat := uint8(0), 0
		switch symbol {
		case 16:
			if i == 0 {
				return r.corrupt()
			}
			value, repeat = r.lengths[i-1], 3+int(r.take(2))
		case 17:
			repeat = 3 + int(r.take(3))
		default:
			repeat = 11 + int(r.take(7))
		}
		if i+repeat > count {
			return r.corrupt()
		}
		for range repeat {
			r.lengths[i] = value
			i++
		}
	}
	return nil
}

// huffman decodes a block until it ends or the window is full.
//
// After load, 56 bits are valid. A lookup of literals uses at most 11 of them, so that 23 are left after three: enough for
// a length, which has at most 20. A distance has at most 28.
func (r *Reader) huffman() (err error) {
	c, write := cursor{r.position, r.bits, r.count}, r.write
	for write < len(r.output)-slack {
		if c.position > r.safe {
			if c, err = r.refilled(c, write); err != nil {
				return err
			}
		}
		c = c.load(&r.input)
		e := r.literals[c.bits&(1<<literalBits-1)]
		for n := 0; e&kindMask == kindLiteral && n < literalLookups; n++ {
			c = c.skip(e)
			binary.LittleEndian.PutUint16(r.output[write:], uint16(e>>value))
			write += int(e >> literalCount & 3)
			e = r.literals[c.bits&(1<<literalBits-1)]
		}
		if e&kindMask == kindLiteral {
			continue
		}
		if e&kindMask == kindTable {
			e = r.literals[e>>value+uint32(c.bits>>literalBits)&(1<<(e>>tableBits&15)-1)]
		}
		length := number(e, c.bits)
		c = c.skip(e)
		if e&kindMask == kindLiteral { // of a long code
			r.output[write] = uint8(e >> value)
			write++
			continue
		}
		if e&kindMask != kindLength {
			r.save(c, write)
			return r.endBlock(e)
		}
		if c.count < distanceBits {
			c = c.load(&r.input)
		}
		d := r.offsets[c.bits&(1<<offsetBits-1)]
		if d&kindMask == kindTable {
			d = r.offsets[d>>value+uint32(c.bits>>offsetBits)&(1<<(d>>tableBits&15)-1)]
		}
		distance := number(d, c.bits)
		c = c.skip(d)
		if d&kindMask != kindLength || distance > write-r.first {
			r.save(c, write)
			return r.corrupt()
		}
		copyMatch(&r.output, write, distance, length)
		write += length
	}
	r.save(c, write)
	return nil
}

const (
	// literalLookups is the number of lookups of literals with the bits of one load.
	literalLookups = 3
	// distanceBits is the largest number of bits of a distance.
	distanceBits = 28
)

// cursor is the position of the loop in huffman. Its methods are inlined, so that it stays in registers.
type cursor struct {
	position int
	bits     uint64
	count    uint
}

// load loads at least 56 bits. The position must be safe.
func (c cursor) load(input *[inputSize + padding]byte) cursor {
	c.bits |= binary.LittleEndian.Uint64(input[c.position:]) << (c.count & 63)
	c.position += int((63 - c.count) >> 3)
	c.count |= 56
	return c
}

// skip drops the bits that an entry uses.
func (c cursor) skip(e uint32) cursor {
	c.bits >>= e & usedBits
	c.count -= uint(e & usedBits)
	return c
}

// number returns the length or the distance of an entry, with its extra bits.
func number(e uint32, bits uint64) int {
	return int(e>>value) + int(bits&(1<<(e&usedBits)-1)>>(e>>codeBits&15))
}

// refilled reads more input, so that the position is safe.
func (r *Reader) refilled(c cursor, write int) (cursor, error) {
	r.save(c, write)
	err := r.refill()
	c.position = r.position
	return c, err
}

// save stores the state of the loop in huffman.
func (r *Reader) save(c cursor, write int) {
	r.position, r.bits, r.count, r.write = c.position, c.bits, c.count, write
}

// endBlock ends a block with the entry of a table that is neither a literal nor a length.
func (r *Reader) endBlock(e uint32) error {
	if e&endMark == 0 {
		return r.corrupt()
	}
	r.next = (*Reader).block
	return nil
}

// copyMatch copies length bytes from distance bytes before write. It may write up to 15 bytes more.
func copyMatch(output *[history + window]byte, write, distance, length int) {
	from := write - distance
	if distance >= 8 && length <= 16 {
		binary.LittleEndian.PutUint64(output[write:], binary.LittleEndian.Uint64(output[from:]))
		binary.LittleEndian.PutUint64(output[write+8:], binary.LittleEndian.Uint64(output[from+8:]))
		return
	}
	copyLong(output, write, from, length)
}

// copyLong copies length bytes. It may write up to 7 bytes more.
func copyLong(output *[history + window]byte, write, from, length int) {
	distance := write - from
	switch {
	case distance >= length:
		copy(output[write:write+length], output[from:from+length])
	case distance >= 8:
		for end := write + length; write < end; {
			binary.LittleEndian.PutUint64(output[write:], binary.LittleEndian.Uint64(output[from:]))
			write += 8
			from += 8
		}
	default:
		for i := range length {
			output[write+i] = output[from+i]
		}
	}
}
