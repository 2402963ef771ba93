// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"archive/tar"
	"path"
	"slices"
	"strings"
)

// maxLinks is the maximum number of symlinks in the resolution of one path: Linux's limit.
const maxLinks = 40

// links are the symlinks of a layer, with their directories. Unpackers resolve the path of an entry at the moment of
// its creation, and links does the same: a symlink can be created through another one, and a hard link to a symlink is
// a symlink.
type links struct {
	root   linkNode
	memory int64 // estimate, in bytes; it never decreases
	steps  int   // number of followed components of targets
	limits Limits
}

// linkNode is a symlink, or a directory with symlinks below it.
type linkNode struct {
	children map[string]*linkNode
	isLink   bool
	target   string
}

// resolve returns the path where an unpacker creates the entry: parts with the symlinks of the layer resolved,
// except the last component. ok is false if the path has too many symlinks.
func (l *links) resolve(parts []string) (at []string, ok bool, err error) {
	if len(l.root.children) == 0 || len(parts) == 0 {
		return parts, true, nil
	}
	dir, ok, err := l.directory(parts[:len(parts)-1])
	if err != nil || !ok {
		return nil, ok, err
	}
	return append(dir, parts[len(parts)-1]), true, nil
}

// directory resolves all components of a path.
func (l *links) directory(dir []string) (done []string, ok bool, err error) {
	nodes := []*linkNode{&l.root} // of done and its parents; nil without symlinks
	todo := [][]string{dir}       // the remaining path, the next component in the last slice
	for followed := 0; len(todo) > 0; {
		last := len(todo) - 1
		if len(todo[last]) == 0 {
			todo = todo[:last]
			continue
		}
		part := todo[last][0]
		todo[last] = todo[last][1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done, nodes = done[:max(0, len(done)-1)], nodes[:max(1, len(nodes)-1)]
			continue
		}
		node := nodes[len(nodes)-1].child(part)
		if node == nil || !node.isLink {
			done, nodes = append(done, part), append(nodes, node)
			continue
		}
		if followed++; followed > maxLinks || len(node.target) > maxPath {
			return nil, false, nil
		}
		if path.IsAbs(node.target) {
			done, nodes = done[:0], nodes[:1]
		}
		target := strings.Split(node.target, "/")
		if l.steps += len(target); l.steps > l.limits.LinkSteps {
			return nil, false, CheckLimit("components of followed symlinks of a layer", l.steps, l.limits.LinkSteps)
		}
		todo = append(todo, target)
	}
	return done, true, nil
}

func (n *linkNode) child(name string) *linkNode {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// find returns the node at a path, or nil.
func (l *links) find(parts []string) *linkNode {
	node := &l.root
	for _, part := range parts {
		node = node.child(part)
	}
	return node
}

// record records an entry at a resolved path: it replaces a symlink there and, unless it is a directory, everything
// below it; a symlink, or a hard link to one, is added.
func (l *links) record(at []string, h *tar.Header) error {
	target, isLink, err := l.linkTarget(at, h)
	if err != nil {
		return err
	}
	if old := l.find(at); old != nil && (old.isLink || h.Typeflag != tar.TypeDir) {
		delete(l.find(at[:len(at)-1]).children, at[len(at)-1])
	}
	if !isLink {
		return nil
	}
	return l.add(at, target)
}

// linkTarget returns the target of a symlink, or of the symlink that a hard link shares. Unpackers remove the
// existing file at the path before they look up the target of a hard link.
func (l *links) linkTarget(at []string, h *tar.Header) (target string, isLink bool, err error) {
	switch h.Typeflag {
	case tar.TypeSymlink:
		return h.Linkname, true, nil
	case tar.TypeLink:
		to, _ := components(h.Linkname)
		from, ok, err := l.resolve(to)
		if err != nil || !ok || len(from) >= len(at) && slices.Equal(from[:len(at)], at) {
			return "", false, err
		}
		if node := l.find(from); node != nil && node.isLink {
			return node.target, true, nil
		}
	}
	return "", false, nil
}

// nodeMemory is the approximate memory of a node without its strings, in bytes.
const nodeMemory = 128

func (l *links) add(at []string, target string) error {
	node := &l.root
	for _, part := range at {
		next := node.child(part)
		if next == nil {
			l.memory += int64(nodeMemory + len(part))
			if node.children == nil {
				node.children = map[string]*linkNode{}
			}
			next = &linkNode{}
			node.children[strings.Clone(part)] = next
		}
		node = next
	}
	node.isLink, node.target = true, target
	l.memory += int64(len(target))
	return CheckLimit("bytes of the symlinks of a layer", l.memory, l.limits.Links)
}
