// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"encoding/json"
	"fmt"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerNumbers are the positions of the layers of an image, for errors.
type layerNumbers struct {
	mu       sync.Mutex
	byDigest map[string]string // "2 of 5", from the order in the manifest
}

// read records the positions of the layers in a manifest.
func (l *layerNumbers) read(raw []byte) {
	var manifest struct {
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return // the caller reports it
	}
	numbers := map[string]string{}
	for n, layer := range manifest.Layers {
		numbers[layer.Digest] = fmt.Sprintf(" %d of %d", n+1, len(manifest.Layers))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byDigest = numbers
}

// of returns the position of a layer, as the end of its name; empty if it is unknown.
func (l *layerNumbers) of(blob v1.Hash) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byDigest[blob.String()]
}
