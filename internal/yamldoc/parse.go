// SPDX-License-Identifier: Apache-2.0

package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Objects returns the objects of a stream, with the items of lists. The error
// joins the errors of all documents, each with its line and number; or it is the error of ToUTF8.
func Objects(stream []byte) ([]*unstructured.Unstructured, error) {
	stream, err := ToUTF8(stream)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	var errs []error
	for _, document := range SplitNonEmpty(stream) {
		parsed, err := document.Parse(document.Text)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d (document %d): %w", document.Line, document.Number, err))
		}
		for _, object := range parsed {
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
	return objects, errors.Join(errs...)
}

// Parse returns the objects of a text that replaces Text, such as Text after
// variable substitution: one object, the items of a list, or nothing if the
// document is empty. A duplicate key is an error. Errors have the line numbers of
// the stream.
func (d Document) Parse(text []byte) ([]map[string]any, error) {
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		padded := append(bytes.Repeat([]byte("\n"), d.Start-1), text...)
		if _, exact := yaml.YAMLToJSONStrict(padded); exact != nil {
			err = exact
		}
		return nil, err
	}
	var value any
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	return flatten(value)
}

// ErrNoObject reports a document, or an item of a list, that is a scalar or a
// sequence.
var ErrNoObject = errors.New("not a Kubernetes object: it has no fields")

// flatten returns the items of a list, or the object itself.
func flatten(value any) ([]map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, ErrNoObject
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	items, hasItems := object["items"].([]any)
	if !IsList(apiVersion, kind, hasItems) {
		return []map[string]any{object}, nil
	}
	var objects []map[string]any
	var errs []error
	for i, item := range items {
		inner, err := flatten(item)
		if err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
		objects = append(objects, inner...)
	}
	return objects, errors.Join(errs...)
}

// IsList reports whether an object is a list: a v1 List, or an object with a
// sequence of items whose kind ends in List. As in kubectl and kustomize, any
// other object with items, such as a custom resource, is not a list.
func IsList(apiVersion, kind string, hasItems bool) bool {
	return kind == "List" && apiVersion == "v1" || hasItems && strings.HasSuffix(kind, "List")
}

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
