// SPDX-License-Identifier: Apache-2.0

package yamldoc

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Encoding is the character encoding of a file, as its name in messages.
type Encoding string

// The encodings that files have in practice. A byte order mark is the character U+FEFF at the begin of a file.
const (
	UTF8         Encoding = "UTF-8"
	UTF8Mark     Encoding = "UTF-8 with a byte order mark"
	UTF16Mark    Encoding = "UTF-16 with a byte order mark"
	UTF16        Encoding = "UTF-16 without a byte order mark"
	UTF32        Encoding = "UTF-32"
	NotUTF8      Encoding = "unknown, but not UTF-8"
	mark                  = "\ufeff"
	littleEndian          = "\xff\xfe"
	bigEndian             = "\xfe\xff"
)

// EncodingOf returns the encoding of a text.
func EncodingOf(data []byte) Encoding {
	begins := func(with string) bool { return bytes.HasPrefix(data, []byte(with)) }
	switch {
	case begins(littleEndian + "\x00\x00"), begins("\x00\x00" + bigEndian), len(data) >= 4 && (begins("\x00\x00\x00") || string(data[1:4]) == "\x00\x00\x00"):
		return UTF32
	case begins(littleEndian), begins(bigEndian):
		return UTF16Mark
	case begins(mark):
		return UTF8Mark
	case len(data) >= 2 && (data[0] == 0) != (data[1] == 0):
		return UTF16
	case !utf8.Valid(data):
		return NotUTF8
	}
	return UTF8
}

// EncodingError reports a text in an encoding that its reader does not support.
type EncodingError struct{ Encoding Encoding }

func (e *EncodingError) Error() string {
	return fmt.Sprintf("the encoding is %s: save the file as UTF-8", e.Encoding)
}

// ToUTF8 returns a text as UTF-8 without byte order mark. As kubectl it reads UTF-8, and UTF-16 with a byte order mark;
// the error for another encoding is an *EncodingError.
func ToUTF8(data []byte) ([]byte, error) {
	switch encoding := EncodingOf(data); encoding {
	case UTF8:
		return data, nil
	case UTF8Mark:
		return data[len(mark):], nil
	case UTF16Mark:
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(data)
	default:
		return nil, &EncodingError{encoding}
	}
}

// CheckUTF8 returns an *EncodingError for a text that is not UTF-8. Readers of verified content use it, because their
// parsers see the bytes that the digest covers. Split skips a byte order mark.
func CheckUTF8(data []byte) error {
	if encoding := EncodingOf(data); encoding != UTF8 && encoding != UTF8Mark {
		return &EncodingError{encoding}
	}
	return nil
}
