// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/imagesjson"
)

// ImageList is a list of images with their places, and the errors of its entries. The zero value is empty.
type ImageList struct {
	entries []imageEntry
	errs    []error
}

// imageEntry is an image and its place: an argument or a line.
type imageEntry struct{ name, reference, place string }

// AddFile adds the images of images.json, or of lines.
func (l *ImageList) AddFile(name string, data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		images, err := imagesjson.Parser{AllowTags: true}.Parse(data)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		for _, image := range images {
			l.entries = append(l.entries, imageEntry{image.Name, image.Reference, name})
		}
		return nil
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			l.Add(line, fmt.Sprintf("%s:%d", name, number))
		}
	}
	return nil
}

// Add adds a NAME=IMAGE pair.
func (l *ImageList) Add(pair, place string) {
	name, reference, found := strings.Cut(pair, "=")
	if !found {
		l.errs = append(l.errs, fmt.Errorf("%s: invalid pair %q: want NAME=IMAGE", place, pair))
		return
	}
	l.entries = append(l.entries, imageEntry{strings.TrimSpace(name), strings.TrimSpace(reference), place})
}

// Set adds a NAME=IMAGE pair, in place of an entry with the same name.
func (l *ImageList) Set(pair, place string) {
	name, _, _ := strings.Cut(pair, "=")
	l.entries = slices.DeleteFunc(l.entries, func(e imageEntry) bool { return e.name == strings.TrimSpace(name) })
	l.Add(pair, place)
}

// Remove removes the entry of a name.
func (l *ImageList) Remove(name, place string) {
	before := len(l.entries)
	l.entries = slices.DeleteFunc(l.entries, func(e imageEntry) bool { return e.name == name })
	if len(l.entries) == before {
		l.errs = append(l.errs, fmt.Errorf("%s: no image has the name %q", place, name))
	}
}

// Images returns the images, or all errors of the list.
func (l *ImageList) Images() (images imagesjson.Images, err error) {
	first := map[string]string{} // place of a name
	for _, e := range l.entries {
		if other, duplicate := first[e.name]; duplicate {
			l.errs = append(l.errs, fmt.Errorf("%s: duplicate name %q: already in %s", e.place, e.name, other))
			continue
		}
		first[e.name] = e.place
		one, err := imagesjson.Parser{AllowTags: true}.Parse(imagesjson.Images{{Name: e.name, Reference: e.reference}}.Encode())
		if invalid, ok := errors.AsType[*imagesjson.EntryError](err); ok {
			err = fmt.Errorf("%q: %q: %w", invalid.Name, invalid.Value, invalid.Err)
		}
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: %w", e.place, err))
		}
		images = append(images, one...)
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, &source.InvalidError{Err: err}
	}
	return images, nil
}
