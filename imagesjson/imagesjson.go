// SPDX-License-Identifier: Apache-2.0

// Package imagesjson reads images.json, the list of the operand images of a release.
package imagesjson

import (
	"bytes"
	"encoding/json"
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
