// SPDX-License-Identifier: Apache-2.0

// Package imagesjson reads images.json, the list of the operand images of a release.
package imagesjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Image is one operand image of the release.
type Image struct {
	// Name is the key in images.json, such as "aws-cluster-api-controllers".
	Name string
	// Reference is the payload reference, always by digest. It identifies the
	// image, regardless of the mirror that serves it.
	Reference string
	// Overridden is true if the reference is from spec.imageOverrides, not from the release.
	Overridden bool
}

// Images are the operand images of a release, sorted by name.
type Images []Image

// Encode returns the images as images.json, in the format that Parse reads, with
// sorted keys, an indent of two spaces and a final newline. Overridden is
// omitted.
func (i Images) Encode() []byte {
	object := make(map[string]string, len(i))
	for _, image := range i {
		object[image.Name] = image.Reference
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(object) // strings into a buffer: it cannot fail
	return out.Bytes()
}

// EntryError is the error of one entry of images.json or spec.imageOverrides.
type EntryError struct {
	// Name is the key; it may be empty.
	Name string
	// Value is the value of the key: the content of a string, or other JSON as
	// written.
	Value string
	// Line is the line in images.json, from 1; 0 for an override.
	Line int
	Err  error
}

// Error returns the line, the key, the value and the cause.
func (e *EntryError) Error() string {
	const limit = 256 // a value can be of any length
	entry := fmt.Sprintf("%q: %q: %v", e.Name, text.Truncate(e.Value, limit), e.Err)
	if e.Line == 0 {
		return entry
	}
	return fmt.Sprintf("line %d: %s", e.Line, entry)
}

func (e *EntryError) Unwrap() error { return e.Err }

// SyntaxError is the position and the cause of invalid JSON.
type SyntaxError struct {
	// Line and Column count from 1; a column is a byte.
	Line, Column int
	Err          error
}

// Error returns "line:column: cause" and the expected form.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%d:%d: %v; want a JSON object of keys and image references", e.Line, e.Column, e.Err)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// Parser parses images.json. The zero value requires a digest in every reference, as
// clusters do.
type Parser struct {
	// AllowTags also accepts references by tag, for callers that resolve them.
	AllowTags bool
}

// Parse parses images.json with the zero Parser.
func Parse(data []byte) (Images, error) { return Parser{}.Parse(data) }

// Parse parses images.json, a JSON object that maps keys to image references. The
// error is a *SyntaxError if data is not a JSON object; otherwise it joins an
// *EntryError for each invalid entry.
func (p Parser) Parse(data []byte) (Images, error) {
	data, err := yamldoc.ToUTF8(data)
	if err != nil {
		return nil, &SyntaxError{Line: 1, Column: 1, Err: err}
	}
	entries, err := scan(data)
	if err != nil {
		return nil, err
	}
	var errs []error
	first := map[string]int{} // line of the first entry with a key
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

// checkEntry returns the errors of an entry. first is the line of an earlier entry with the same
// key, or 0.
func (p Parser) checkEntry(e entry, first int) (errs []error) {
	if first > 0 {
		errs = append(errs, fmt.Errorf("duplicate key: first defined on line %d", first))
	}
	if !e.isString() {
		return append(errs, errors.New("want a string with an image reference"))
	}
	return append(errs, p.check(e.name, e.text())...)
}

// check returns the errors of an image.
func (p Parser) check(operand, reference string) (errs []error) {
	if strings.TrimSpace(operand) == "" {
		errs = append(errs, errors.New("empty key"))
	}
	if err := p.checkReference(reference); err != nil {
		errs = append(errs, err)
	}
	return errs
}

const (
	wantDigest = "want <registry>/<repository>@sha256:<64 hex digits>"
	wantTag    = "want <registry>/<repository>:<tag> or <registry>/<repository>@sha256:<64 hex digits>"
)

// byDigest is the pattern of v1alpha1.ImageReference; its other limit is longest.
var byDigest = regexp.MustCompile(`^[][a-zA-Z0-9.:_-]+(/[a-zA-Z0-9._-]+)+(:[a-zA-Z0-9._-]+)?@sha256:[a-f0-9]{64}$`)

const longest = 1024

func (p Parser) checkReference(reference string) error {
	switch {
	case len(reference) > longest:
		return fmt.Errorf("image reference exceeds %d bytes", longest)
	case strings.Contains(reference, "@"):
		return checkDigest(reference)
	case p.AllowTags:
		return checkTag(reference)
	}
	if _, err := name.NewTag(reference); err != nil {
		return fmt.Errorf("%w; %s", err, wantDigest)
	}
	return errors.New("missing digest (tags are mutable); " + wantDigest)
}

func checkTag(reference string) error {
	if at := strings.LastIndex(reference, "/"); !strings.Contains(reference[at+1:], ":") {
		return errors.New("missing tag or digest; " + wantTag)
	}
	if _, err := name.NewTag(reference, name.StrictValidation); err != nil {
		return fmt.Errorf("%w; %s", err, wantTag)
	}
	return nil
}

func checkDigest(reference string) error {
	ref, err := name.NewDigest(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("%w; %s", err, wantDigest)
	}
	d := digest.Digest(ref.DigestStr())
	if err := d.Validate(); err != nil {
		return fmt.Errorf("%w; %s", err, wantDigest)
	}
	if d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("unsupported digest algorithm %s; %s", d.Algorithm(), wantDigest)
	}
	if !byDigest.MatchString(reference) {
		return errors.New("invalid image reference; " + wantDigest)
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

// text returns the content of a string, or other JSON as written.
func (e entry) text() string {
	var s string
	if e.isString() && json.Unmarshal(e.value, &s) == nil {
		return s
	}
	return string(e.value)
}

// scan returns the members of the JSON object, in the order of the file.
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
	if len(bytes.TrimSpace(data)) == 0 {
		return &SyntaxError{1, 1, errors.New("the file is empty")}
	}
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
		return &SyntaxError{line, column, errors.New("not an object")}
	}
	return nil
}

// position returns the line and the column of an offset in data.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// Override returns the images with the overrides applied: an override replaces
// the image with the same key or adds one. It must have a digest. The error joins
// an *EntryError for each invalid override.
func (i Images) Override(overrides []v1alpha1.ImageOverride) (Images, error) {
	images := make(map[string]Image, len(i)+len(overrides))
	for _, image := range i {
		images[image.Name] = image
	}
	var errs []error
	seen := map[string]bool{}
	for _, override := range overrides {
		image := Image{Name: override.Name, Reference: string(override.Image), Overridden: true}
		problems := Parser{}.check(image.Name, image.Reference)
		if seen[image.Name] {
			problems = append(problems, errors.New("duplicate override; keep one"))
		}
		for _, err := range problems {
			errs = append(errs, &EntryError{Name: image.Name, Value: image.Reference, Err: err})
		}
		seen[image.Name], images[image.Name] = true, image
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return sorted(images), nil
}

func sorted(images map[string]Image) Images {
	list := make(Images, 0, len(images))
	for _, image := range images {
		list = append(list, image)
	}
	slices.SortFunc(list, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
