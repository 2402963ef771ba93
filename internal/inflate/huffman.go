// SPDX-License-Identifier: Apache-2.0

package inflate

import "math/bits"

// The symbols of literals and lengths, and the bits that index tables.
const (
	literalSymbols = 288
	endOfBlock     = 256
	maxSymbols     = literalSymbols + 32
	maxLength      = 15 // of a code

	literalBits, offsetBits, lengthBits = 10, 8, 7
)

// An entry of a table has the number of bits that it uses in the lowest 6 bits, and its kind. The zero value is invalid.
const (
	usedBits    = 1<<6 - 1
	kindMask    = 3 << 6
	kindLiteral = 1 << 6 // one or two literals: their number from bit literalCount, the literals from bit value
	kindLength  = 2 << 6 // a length or a distance: the bits of its code from bit codeBits, the base from bit value; the extra bits follow the code
	kindTable   = 3 << 6 // a further table: the bits of its index from bit tableBits, its start from bit value
	endMark     = 1 << 12
	value       = 16

	literalCount, codeBits, tableBits = 8, 8, 8
)

// Tables have 1<<n entries for the next n bits of the input, and behind them those of longer codes: at most one
// further table for two symbols.
type (
	literalTable [1<<literalBits + literalSymbols/2<<(maxLength-literalBits)]uint32
	offsetTable  [1<<offsetBits + 32/2<<(maxLength-offsetBits)]uint32
	// lengthTable has symbol<<4 | bits.
	lengthTable [1 << lengthBits]uint16
)

// build makes the table of the code with these lengths, and reports whether it is complete.
func (t *literalTable) build(lengths []uint8) bool {
	if !fillTable(t[:], literalBits, lengths, literalEntry) {
		return false
	}
	t.pair()
	return true
}

// pair adds the second literal to entries whose index has the codes of two. From the highest index down, the entry of the rest of the
// index is still that of one literal.
func (t *literalTable) pair() {
	for i := 1<<literalBits - 1; i >= 0; i-- {
		first := t[i]
		used := first & usedBits
		second := t[i>>used]
		if first&kindMask == kindLiteral && second&kindMask == kindLiteral && used+second&usedBits <= literalBits {
			t[i] = kindLiteral | used + second&usedBits | 2<<literalCount | first>>value<<value | second>>value<<(value+8)
		}
	}
}

// literalEntry returns the entry of a symbol without its code, and the number of its extra bits.
func literalEntry(symbol int) (entry, extra uint32) {
	switch {
	case symbol < endOfBlock:
		return kindLiteral | 1<<literalCount | uint32(symbol)<<value, 0
	case symbol == endOfBlock:
		return endMark, 0
	case symbol < 265:
		return kindLength | uint32(symbol-257+3)<<value, 0
	case symbol == 285:
		return kindLength | 258<<value, 0
	case symbol < 285:
		extra := uint32(symbol-261) / 4
		return kindLength | (3+(4+uint32(symbol-261)%4)<<extra)<<value, extra
	}
	return 0, 0
}

// build makes the table of the code with these lengths, and reports whether it is complete.
func (t *offsetTable) build(lengths []uint8) bool {
	return fillTable(t[:], offsetBits, lengths, offsetEntry)
}

// offsetEntry returns the entry of a symbol without its code, and the number of its extra bits.
func offsetEntry(symbol int) (entry, extra uint32) {
	switch {
	case symbol < 4:
		return kindLength | uint32(symbol+1)<<value, 0
	case symbol < 30:
		extra := uint32(symbol-2) / 2
		return kindLength | (1+(2+uint32(symbol)%2)<<extra)<<value, extra
	}
	return 0, 0
}

// complete returns the entry of a symbol with a code of the given length.
func complete(entry func(symbol int) (entry, extra uint32), symbol int, length uint8) uint32 {
	e, extra := entry(symbol)
	if e&kindMask == kindLength {
		e |= uint32(length) << codeBits
	}
	return e | uint32(length) + extra
}

// build makes the table of the code with these lengths, and reports whether it is complete.
func (t *lengthTable) build(lengths []uint8) bool {
	next, ok := firstCodes(lengths)
	for symbol, length := range lengths {
		if length == 0 || !ok {
			continue
		}
		for i := next.reversed(length); i < 1<<lengthBits; i += 1 << length {
			t[i] = uint16(symbol)<<4 | uint16(length)
		}
	}
	return ok
}

// fillTable makes a table with a primary index of the given bits.
func fillTable(table []uint32, primary uint8, lengths []uint8, entry func(symbol int) (entry, extra uint32)) bool {
	next, ok := firstCodes(lengths)
	if !ok {
		return false
	}
	clear(table)
	longest := uint8(0)
	for _, length := range lengths {
		longest = max(longest, length)
	}
	end := 1 << primary // of the used part of the table
	for symbol, length := range lengths {
		if length == 0 {
			continue
		}
		code, e := next.reversed(length), complete(entry, symbol, length)
		if length <= primary {
			for i := code; i < 1<<primary; i += 1 << length {
				table[i] = e
			}
			continue
		}
		at := code & (1<<primary - 1)
		if table[at] == 0 {
			table[at] = kindTable | uint32(longest-primary)<<tableBits | uint32(end)<<value
			end += 1 << (longest - primary)
		}
		further := table[table[at]>>value:][:1<<(longest-primary)]
		for i := code >> primary; i < len(further); i += 1 << (length - primary) {
			further[i] = e
		}
	}
	return true
}

// nextCode has the next code of each length.
type nextCode [maxLength + 1]int

// firstCodes returns the first code of each length: RFC 1951, section 3.2.2. The code must be complete; as in compress/flate it may
// also be empty, or a single symbol of one bit.
func firstCodes(lengths []uint8) (next nextCode, ok bool) {
	var count nextCode
	longest := 0
	for _, length := range lengths {
		count[length]++
		longest = max(longest, int(length))
	}
	if longest == 0 {
		return next, true
	}
	code := 0
	count[0] = 0
	for length := 1; length <= longest; length++ {
		code = (code + count[length-1]) << 1
		next[length] = code
	}
	code += count[longest]
	return next, code == 1<<longest || code == 1 && longest == 1
}

// reversed returns the next code of a length, with its first bit as the lowest.
func (n *nextCode) reversed(length uint8) int {
	code := n[length]
	n[length]++
	return int(bits.Reverse16(uint16(code)) >> (16 - length))
}
