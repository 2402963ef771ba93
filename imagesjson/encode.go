// SPDX-License-Identifier: Apache-2.0

package imagesjson

import (
	"bytes"
	"encoding/json"
)

// Encode writes the images as images.json, which Parse reads: keys sorted,
// two spaces of indent, a newline at the end. Overridden is not part of it.
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
