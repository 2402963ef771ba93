// SPDX-License-Identifier: Apache-2.0

package imagesjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
)

// EntryError is one wrong entry of images.json or of spec.imageOverrides.
type EntryError struct {
	// Name is the key; it may be empty.
	Name string
	// Value is the value of the key: the content of a string, other JSON literally.
	Value string
	// Line is the line in images.json, from 1; 0 for an override.
	Line int
	Err  error
}

// Error names the entry, where it stands and the cause.
func (e *EntryError) Error() string {
	const most = 256 // of a value that may be anything
	value := e.Value
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	text := fmt.Sprintf("%q: %q: %v", e.Name, value, e.Err)
	if e.Line == 0 {
		return text
	}
	return fmt.Sprintf("line %d: %s", e.Line, text)
}

func (e *EntryError) Unwrap() error { return e.Err }

// SyntaxError is the position of malformed content.
type SyntaxError struct {
	// Line and Column count from 1; a column is a byte.
	Line, Column int
	Err          error
}

// Error is line:column and the cause.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err) }

func (e *SyntaxError) Unwrap() error { return e.Err }

// Parser reads images.json. The zero value is right in a cluster: every image is by digest.
type Parser struct {
	// AllowTags accepts references by tag as well, for a caller that resolves them.
	AllowTags bool
}

// Parse reads images.json with the zero Parser.
func Parse(data []byte) (Images, error) { return Parser{}.Parse(data) }

// Parse reads images.json: a JSON object from operand name to image reference.
// If data is not such an object the error is a *SyntaxError; otherwise it joins
// an *EntryError for each error of an entry.
func (p Parser) Parse(data []byte) (Images, error) {
	entries, err := scan(data)
	if err != nil {
		return nil, err
	}
	var errs []error
	first := map[string]int{} // line of the first entry with a name
	images := make(map[string]Image, len(entries))
	for _, e := range entries {
		for _, err := range p.checkEntry(e, first[e.name]) {
			errs = append(errs, &EntryError{Name: e.name, Value: e.text(), Line: e.line, Err: err})
		}
		if first[e.name] == 0 {
			first[e.name] = e.line
		}
		images[e.name] = Image{Name: e.name, Reference: e.text()}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return sorted(images), nil
}

// checkEntry returns the errors of an entry; first is the line of an earlier one with the same name, or 0.
func (p Parser) checkEntry(e entry, first int) (errs []error) {
	if first > 0 {
		errs = append(errs, fmt.Errorf("duplicate name: already on line %d", first))
	}
	if !e.isString() {
		return append(errs, errors.New("an image reference is a string"))
	}
	return append(errs, p.check(e.name, e.text())...)
}

// check returns the errors of an image.
func (p Parser) check(operand, reference string) (errs []error) {
	if strings.TrimSpace(operand) == "" {
		errs = append(errs, errors.New("the name is empty"))
	}
	if err := p.checkReference(reference); err != nil {
		errs = append(errs, err)
	}
	return errs
}

const (
	digestNeeded = "name the image by its digest: <registry>/<repository>@sha256:<64 hex digits>"
	tagNeeded    = "name the image by tag or digest: <registry>/<repository>:<tag>, or with @sha256:<64 hex digits>"
)

// byDigest is the pattern of an image in the ClusterAPI object, of at most longest bytes.
var byDigest = regexp.MustCompile(`^[][a-zA-Z0-9.:_-]+(/[a-zA-Z0-9._-]+)+(:[a-zA-Z0-9._-]+)?@sha256:[a-f0-9]{64}$`)

const longest = 1024

func (p Parser) checkReference(reference string) error {
	switch {
	case len(reference) > longest:
		return fmt.Errorf("is longer than %d bytes", longest)
	case strings.Contains(reference, "@"):
		return checkDigest(reference)
	case p.AllowTags:
		return checkTag(reference)
	}
	if _, err := name.NewTag(reference); err != nil {
		return fmt.Errorf("%w; %s", err, digestNeeded)
	}
	return errors.New("has no digest, and a tag can change; " + digestNeeded)
}

func checkTag(reference string) error {
	if _, err := name.NewTag(reference, name.StrictValidation); err != nil {
		return fmt.Errorf("%w; %s", err, tagNeeded)
	}
	return nil
}

func checkDigest(reference string) error {
	ref, err := name.NewDigest(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("%w; %s", err, digestNeeded)
	}
	d := digest.Digest(ref.DigestStr())
	if err := d.Validate(); err != nil {
		return fmt.Errorf("%w; %s", err, digestNeeded)
	}
	if d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("the digest is %s; %s", d.Algorithm(), digestNeeded)
	}
	if !byDigest.MatchString(reference) {
		return errors.New("invalid image reference; " + digestNeeded)
	}
	return nil
}

// entry is one member of the object.
type entry struct {
	name  string
	value json.RawMessage
	line  int
}

func (e entry) isString() bool { return len(e.value) > 0 && e.value[0] == '"' }

// text is the content of a string, and other JSON literally.
func (e entry) text() string {
	var s string
	if e.isString() && json.Unmarshal(e.value, &s) == nil {
		return s
	}
	return string(e.value)
}

// scan returns the members of the object that data is, in the order of the file.
func scan(data []byte) ([]entry, error) {
	if err := checkObject(data); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil { // the opening brace
		return nil, err
	}
	var entries []entry
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		line, _ := position(data, decoder.InputOffset())
		e := entry{name: key.(string), line: line}
		if err := decoder.Decode(&e.value); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// checkObject returns a *SyntaxError if data is not one JSON object.
func checkObject(data []byte) error {
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line, column := position(data, syntax.Offset-1)
		return &SyntaxError{line, column, err}
	}
	if err != nil {
		return &SyntaxError{1, 1, err}
	}
	if start := bytes.IndexByte(data, whole[0]); whole[0] != '{' {
		line, column := position(data, int64(start))
		return &SyntaxError{line, column, errors.New("a JSON object from operand name to image reference is needed here")}
	}
	return nil
}

// position is the line and the column of a byte of data.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}
