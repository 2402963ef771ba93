// SPDX-License-Identifier: Apache-2.0

package overlay

import "github.com/capi-installer/capi-installer/extractor"

// Index is the part of a layer that concerns bundles: its entries at and below the roots, and the whiteouts that hide
// entries of lower layers. It depends only on the layer's bytes and the Limits, so each layer is read once; an empty
// Index is cached as well. It does not change after Scan.
type Index struct {
	// nodes are the entries at and below the roots, by their paths.
	nodes map[string]*node
	// whiteouts are the paths that the layer hides in lower layers, with their content.
	whiteouts map[string]bool
	// opaques are the directories whose content in lower layers is hidden; never the image's root.
	opaques map[string]bool
	// refusals are entries that no unpacker should create, by the path where they would be created.
	refusals map[string]string
	// Err is the reason why the verified bytes are not a valid layer; nil if they are.
	Err error
	// targets are set if the index is incomplete.
	targets Targets
}

// Targets returns the files outside of the roots that hard links share; a second scan with them completes the index. It returns nil
// for a complete index.
func (i *Index) Targets() Targets { return i.targets }

// kind is the kind of a node.
type kind uint8

const (
	directory kind = iota
	regular
	refused // exists, but cannot be part of a bundle
)

// node is a file or a directory of one layer.
type node struct {
	kind   kind
	size   int64  // of a regular file
	data   []byte // of a regular file: its content if it is a file of a bundle (extractor.Limit), nil otherwise
	reason string // reason of a refused node
}

// Files returns the directories and regular files of this layer alone at and below the roots.
func (i *Index) Files() extractor.Files {
	files := extractor.Files{}
	for file, n := range i.nodes {
		n.addTo(files, file)
	}
	return files
}

// addTo adds a directory or a regular file to files.
func (n *node) addTo(files extractor.Files, file string) {
	switch {
	case n.kind == directory:
		files[file+"/"] = nil
	case n.kind == regular && n.data == nil:
		files[file] = []byte{}
	case n.kind == regular:
		files[file] = n.data
	}
}

func newIndex() *Index {
	return &Index{nodes: map[string]*node{}, whiteouts: map[string]bool{}, opaques: map[string]bool{}, refusals: map[string]string{}}
}

// Weight returns the approximate memory of the index, in bytes.
func (i *Index) Weight() int64 {
	total := int64(1 << 10)
	for file, n := range i.nodes {
		total += int64(200 + len(file) + len(n.data) + len(n.reason))
	}
	return total + 300*int64(len(i.whiteouts)+len(i.opaques)+len(i.refusals))
}
