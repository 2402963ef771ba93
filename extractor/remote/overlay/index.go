// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// projection is all that a layer has to do with the roots of bundles. It is a
// function of the layer's bytes and the Limits, so that a layer needs to be read
// once, ever: that it has nothing to do with them is kept as well.
type projection struct {
	// nodes are what the layer puts at and below the roots, by their paths.
	nodes map[string]*node
	// whiteouts are the paths that the layer hides in lower layers, with all that is below them.
	whiteouts map[string]bool
	// opaques are the directories whose content in lower layers is hidden; "" is the image's root.
	opaques map[string]bool
	// refusals are entries that no unpacker should accept, by the path where they would do harm.
	refusals map[string]string
	// broken is why the layer is none, although its bytes are the right ones; nil if it is one.
	broken *brokenError
}

// brokenError is an error that can be kept.
type brokenError struct {
	Text  string      `json:"text"`
	Limit *LimitError `json:"limit,omitempty"` // that Text speaks of
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

// kind is what a node is.
type kind uint8

const (
	directory kind = iota
	regular
	refused // it is there, but is nothing that a bundle is made of
)

// node is a file or a directory of one layer.
type node struct {
	kind   kind
	size   int64  // of a regular file
	data   []byte // of a regular file: its content if extractor.Limit lets it count, nil otherwise
	reason string // why it is refused
}

func newProjection() *projection {
	return &projection{nodes: map[string]*node{}, whiteouts: map[string]bool{}, opaques: map[string]bool{}, refusals: map[string]string{}}
}

// weight is about how many bytes of memory a projection takes.
func (p *projection) weight() int64 {
	total := int64(1 << 10)
	for file, n := range p.nodes {
		total += int64(200 + len(file) + len(n.data) + len(n.reason))
	}
	return total + 300*int64(len(p.whiteouts)+len(p.opaques)+len(p.refusals))
}

// projectionVersion changes whenever the same layer would give another projection.
const projectionVersion = 1

// header is how a projection is kept: one line of JSON, and after it the
// contents of its files. Paths are quoted as Go does: they need not be UTF-8.
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
	Kept   bool   `json:"kept,omitempty"` // the content follows
	Reason string `json:"reason,omitempty"`
}

// encode returns a projection that was made under limits as it is kept.
func (p *projection) encode(limits Limits) ([]byte, error) {
	h := header{Version: projectionVersion, Limits: limits, Whiteouts: quoted(p.whiteouts), Opaques: quoted(p.opaques), Broken: p.broken}
	for file, reason := range p.refusals {
		if h.Refusals == nil {
			h.Refusals = map[string]string{}
		}
		h.Refusals[strconv.QuoteToASCII(file)] = reason
	}
	var contents [][]byte
	for _, file := range slices.Sorted(maps.Keys(p.nodes)) {
		n := p.nodes[file]
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

// errOtherVersion says that a projection was kept by another version of this program, or under other limits.
var errOtherVersion = errors.New("it was made by another version or under other limits")

// decodeProjection reads a projection that was kept. The data stays in use.
func decodeProjection(data []byte, limits Limits) (*projection, error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("parsing a kept projection: %w", err)
	}
	if h.Version != projectionVersion || h.Limits != limits {
		return nil, errOtherVersion
	}
	p := newProjection()
	p.broken = h.Broken
	for file, reason := range h.Refusals {
		unquoted, err := strconv.Unquote(file)
		if err != nil {
			return nil, fmt.Errorf("parsing the path %s: %w", file, err)
		}
		p.refusals[unquoted] = reason
	}
	if err := errors.Join(unquote(p.whiteouts, h.Whiteouts), unquote(p.opaques, h.Opaques)); err != nil {
		return nil, err
	}
	return p, p.readNodes(h.Nodes, rest)
}

// readNodes takes the nodes and their contents, which must be all that data is.
func (p *projection) readNodes(nodes []nodeHeader, data []byte) error {
	for _, n := range nodes {
		file, err := strconv.Unquote(n.Path)
		if err != nil || n.Kind > refused || n.Size < 0 {
			return fmt.Errorf("parsing a kept projection: the node %s makes no sense", n.Path)
		}
		kept := &node{kind: n.Kind, size: n.Size, reason: n.Reason}
		if n.Kept {
			if n.Size > int64(len(data)) {
				return fmt.Errorf("parsing a kept projection: the content of %s is cut", n.Path)
			}
			kept.data, data = data[:n.Size:n.Size], data[n.Size:]
		}
		p.nodes[file] = kept
	}
	if len(data) > 0 {
		return fmt.Errorf("parsing a kept projection: %d bytes belong to no file", len(data))
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
