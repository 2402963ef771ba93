// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/capi-installer/capi-installer/extractor"
)

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
	// broken is the reason why the verified bytes are not a valid layer; nil if they are.
	broken *brokenError
	// targets are set if the index is incomplete.
	targets Targets
}

// Targets returns the files outside of the roots that hard links share; a second scan with them completes the index. It returns nil
// for a complete index.
func (i *Index) Targets() Targets { return i.targets }

// brokenError is an error that can be stored.
type brokenError struct {
	Text  string      `json:"text"`
	Limit *LimitError `json:"limit,omitempty"` // returned by Text
}

func newBroken(err error) *brokenError {
	limit, _ := errors.AsType[*LimitError](err)
	return &brokenError{err.Error(), limit}
}

func (b *brokenError) Error() string { return b.Text }

func (b *brokenError) Unwrap() error {
	if b.Limit == nil {
		return nil
	}
	return b.Limit
}

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

// Err returns the reason why the verified bytes are not a valid layer; nil if they are.
func (i *Index) Err() error {
	if i.broken == nil {
		return nil
	}
	return i.broken
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

// indexVersion changes whenever the same layer gives another index.
const indexVersion = 5

// header is the first line of an encoded index, in JSON; the contents of its
// files follow. Paths are quoted as in Go: they need not be UTF-8.
type header struct {
	Version   int               `json:"version"`
	Limits    Limits            `json:"limits"`
	Nodes     []nodeHeader      `json:"nodes,omitempty"`
	Whiteouts []string          `json:"whiteouts,omitempty"`
	Opaques   []string          `json:"opaques,omitempty"`
	Refusals  map[string]string `json:"refusals,omitempty"`
	Broken    *brokenError      `json:"broken,omitempty"`
}

type nodeHeader struct {
	Path   string `json:"path"`
	Kind   kind   `json:"kind"`
	Size   int64  `json:"size,omitempty"`
	Kept   bool   `json:"kept,omitempty"` // the content follows the header
	Reason string `json:"reason,omitempty"`
}

// Encode returns the index of a scan with these limits, in the form that Decode reads.
func (i *Index) Encode(limits Limits) ([]byte, error) {
	h := header{Version: indexVersion, Limits: limits, Whiteouts: quoted(i.whiteouts), Opaques: quoted(i.opaques), Broken: i.broken}
	for file, reason := range i.refusals {
		if h.Refusals == nil {
			h.Refusals = map[string]string{}
		}
		h.Refusals[strconv.QuoteToASCII(file)] = reason
	}
	var contents [][]byte
	for _, file := range slices.Sorted(maps.Keys(i.nodes)) {
		n := i.nodes[file]
		h.Nodes = append(h.Nodes, nodeHeader{strconv.QuoteToASCII(file), n.kind, n.size, n.data != nil, n.reason})
		contents = append(contents, n.data)
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return slices.Concat(append([][]byte{line, []byte("\n")}, contents...)...), nil
}

func quoted(paths map[string]bool) (list []string) {
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		list = append(list, strconv.QuoteToASCII(p))
	}
	return list
}

// ErrVersion reports an index of another version of this program, or with other limits.
var ErrVersion = errors.New("the index has another version or other limits")

// Decode reads an index that Encode wrote for the same limits; otherwise the error is ErrVersion. The index refers to
// data.
func Decode(data []byte, limits Limits) (*Index, error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("parsing an index: %w", err)
	}
	if h.Version != indexVersion || h.Limits != limits {
		return nil, ErrVersion
	}
	i := newIndex()
	i.broken = h.Broken
	for file, reason := range h.Refusals {
		unquoted, err := strconv.Unquote(file)
		if err != nil {
			return nil, fmt.Errorf("parsing the path %s: %w", file, err)
		}
		i.refusals[unquoted] = reason
	}
	if err := errors.Join(unquote(i.whiteouts, h.Whiteouts), unquote(i.opaques, h.Opaques)); err != nil {
		return nil, err
	}
	return i, i.readNodes(h.Nodes, rest)
}

// readNodes reads the nodes and their contents. They must take all of data.
func (i *Index) readNodes(nodes []nodeHeader, data []byte) error {
	for _, n := range nodes {
		file, err := strconv.Unquote(n.Path)
		if err != nil || n.Kind > refused || n.Size < 0 {
			return fmt.Errorf("parsing an index: the node %s is invalid", n.Path)
		}
		kept := &node{kind: n.Kind, size: n.Size, reason: n.Reason}
		if n.Kept {
			if n.Size > int64(len(data)) {
				return fmt.Errorf("parsing an index: the content of %s is truncated", n.Path)
			}
			kept.data, data = data[:n.Size:n.Size], data[n.Size:]
		}
		i.nodes[file] = kept
	}
	if len(data) > 0 {
		return fmt.Errorf("parsing an index: %d bytes follow the last file", len(data))
	}
	return nil
}

func unquote(set map[string]bool, list []string) error {
	for _, q := range list {
		file, err := strconv.Unquote(q)
		if err != nil {
			return fmt.Errorf("parsing the path %s: %w", q, err)
		}
		set[file] = true
	}
	return nil
}
