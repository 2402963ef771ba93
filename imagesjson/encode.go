// SPDX-License-Identifier: Apache-2.0

package imagesjson

import (
	"bytes"
	"encoding/json"
)

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
