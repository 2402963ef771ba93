// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// tree is the file system of an image in memory, as far as the layers applied
// so far make it. Layers are applied from the bottom to the top, each entry of
// a layer in the order of its archive:
//
//   - A directory over a directory merges. Anything else over anything else
//     replaces it with all that is below it.
//   - A whiteout, plain or opaque, hides what lower layers put there, wherever
//     it stands among the entries of its own layer.
//   - A hard link shares the file that its target is at that moment; replacing
//     the target later leaves the link as it is.
//   - Parents of an entry that are symlinks to directories are followed, inside
//     the image, as umoci and containerd do. A parent that is missing, or is
//     neither a directory nor leads to one, is replaced by a directory, as an
//     overlay shows it.
//   - What no unpacker would create, or none should, becomes a refused node: it
//     hides what it replaces, and does harm only if it is part of the answer.
//
// Nothing here ever touches a real file system.
type tree struct {
	root   *node
	limits Limits
	count  int   // names that were ever made
	text   int64 // bytes of these names and of link targets
}

// kind is what a node is.
type kind uint8

const (
	directory kind = iota
	regular
	symlink
	refused
)

// node is a file, apart from its names.
type node struct {
	kind     kind
	children map[string]dirent // of a directory
	pruned   int               // of a directory: it holds nothing that is older than this layer
	target   string            // of a symlink
	size     int64             // of a regular file
	at       place             // of a regular file
	data     []byte            // of a regular file: its content, nil if it was not kept
	err      error             // of a refused node: why
}

// dirent is a name in a directory, with the index of the layer that put it there.
type dirent struct {
	node  *node
	layer int
}

// place says where the content of a file is: in the entry-th entry of a layer, both counted from 0.
type place struct{ layer, entry int }

// maxLinks is how many symlinks a path may lead through: what Linux allows.
const maxLinks = 40

// maxName and maxPath are the lengths in bytes of the longest file name and path that Linux allows.
const maxName, maxPath = 255, 4096

var (
	errAbsent    = errors.New("does not exist")
	errLoop      = errors.New("leads through too many symlinks")
	errNoFolder  = errors.New("leads through something that is not a directory")
	errClimbs    = errors.New("its name climbs with \"..\"")
	errLongName  = errors.New("its name is longer than a file system holds")
	errBadTarget = errors.New("it is a link whose target no file system holds")
	errNoTarget  = errors.New("it is a hard link to something that is not there")
	errLinkToDir = errors.New("it is a hard link to a directory")
	errWhiteout  = errors.New("it is a whiteout that hides nothing that can exist")
)

func newTree(limits Limits) *tree {
	return &tree{root: newDirectory(0), limits: limits}
}

func newDirectory(layer int) *node {
	return &node{kind: directory, children: map[string]dirent{}, pruned: layer}
}

func refuse(err error) *node {
	return &node{kind: refused, err: err}
}

// components splits a name of an archive into its components below the image's
// root, and says whether it had a ".." among them. Absolute names, "./" and "//" are other spellings of the same path.
func components(name string) (parts []string, climbs bool) {
	climbs = slices.Contains(strings.Split(name, "/"), "..")
	clean := strings.Trim(path.Clean("/"+name), "/")
	if clean == "" {
		return nil, climbs
	}
	return strings.Split(clean, "/"), climbs
}

const (
	whiteoutPrefix = ".wh."
	metaPrefix     = ".wh..wh."
	opaque         = ".wh..wh..opq"
)

// apply applies the entry that is at a place. content is its content, nil if it
// was not kept. It is an error if the tree becomes larger than the limits.
func (t *tree) apply(h *tar.Header, at place, content []byte) error {
	parts, climbs := components(h.Name)
	if h.Typeflag == tar.TypeXGlobalHeader || len(parts) == 0 {
		return nil
	}
	parts, err := t.shorten(parts)
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	switch {
	case err != nil:
		t.put(parts, refuse(err), at.layer)
	case climbs:
		t.put(parts, refuse(errClimbs), at.layer)
	case slices.ContainsFunc(dir, isMeta): // in the bookkeeping of another unpacker
	case strings.HasPrefix(base, whiteoutPrefix):
		t.whiteout(parts, h, at.layer)
	default:
		t.add(parts, h, at, content)
	}
	return errors.Join(within("names", t.count, t.limits.Entries), within("bytes of names", t.text, t.limits.Names))
}

// shorten cuts what would be a needless burden off a path, and says so: the
// rest is where the refusal goes.
func (t *tree) shorten(parts []string) (short []string, err error) {
	short = parts
	if len(parts) > t.limits.Depth {
		short, err = parts[:t.limits.Depth], &LimitError{What: "components of a path", Limit: int64(t.limits.Depth)}
	}
	for i, part := range short {
		if len(part) > maxName {
			return append(slices.Clone(short[:i]), part[:maxName]), errLongName
		}
	}
	return short, err
}

func isMeta(part string) bool { return strings.HasPrefix(part, metaPrefix) }

// add adds an entry that is not a whiteout.
func (t *tree) add(parts []string, h *tar.Header, at place, content []byte) {
	switch h.Typeflag {
	case tar.TypeDir:
		t.putDirectory(parts, at.layer)
	case tar.TypeReg:
		t.put(parts, &node{kind: regular, size: h.Size, at: at, data: content}, at.layer)
	case tar.TypeSymlink:
		t.put(parts, newSymlink(h.Linkname), at.layer)
	case tar.TypeLink:
		t.link(parts, h.Linkname, at.layer)
	default:
		t.put(parts, refuse(fmt.Errorf("it is %s", typeName(h.Typeflag))), at.layer)
	}
}

func newSymlink(target string) *node {
	if target == "" || len(target) > maxPath {
		return refuse(errBadTarget)
	}
	return &node{kind: symlink, target: target}
}

// typeName names the entry types that are refused.
func typeName(flag byte) string {
	switch flag {
	case tar.TypeChar:
		return "a character device"
	case tar.TypeBlock:
		return "a block device"
	case tar.TypeFifo:
		return "a named pipe"
	}
	return fmt.Sprintf("an archive entry of the unknown type %q", flag)
}

// put makes n what parts name, in place of what they named before.
func (t *tree) put(parts []string, n *node, layer int) {
	dir, base := t.parent(parts, layer), parts[len(parts)-1]
	t.set(dir, base, n, layer)
}

// set makes n what name is in dir.
func (t *tree) set(dir *node, name string, n *node, layer int) {
	dir.children[strings.Clone(name)] = dirent{node: n, layer: layer} // a clone: name is a part of a longer string
	t.count++
	t.text += int64(len(name) + len(n.target))
}

// putDirectory makes parts name a directory; one that is there stays.
func (t *tree) putDirectory(parts []string, layer int) {
	dir, base := t.parent(parts, layer), parts[len(parts)-1]
	n := dir.children[base].node
	if n == nil || n.kind != directory {
		n = newDirectory(layer)
	}
	t.set(dir, base, n, layer)
}

// parent returns the directory in which the last of parts belongs, and makes it if need be.
func (t *tree) parent(parts []string, layer int) *node {
	dir := t.root
	for i := range len(parts) - 1 {
		next, err := t.descend(dir, parts[:i], parts[i])
		if err != nil || next.kind != directory {
			next = newDirectory(layer)
			t.set(dir, parts[i], next, layer)
		}
		dir = next
	}
	return dir
}

// descend returns what name is in dir, whose path is at, with symlinks followed.
func (t *tree) descend(dir *node, at []string, name string) (*node, error) {
	child := dir.children[name].node
	switch {
	case child == nil:
		return nil, errAbsent
	case child.kind != symlink:
		return child, nil
	}
	return t.lookup(append(slices.Clone(at), name))
}

// lookup returns what parts name, with all symlinks followed as for a process
// whose root directory is the image: ".." in the root is the root.
func (t *tree) lookup(parts []string) (*node, error) {
	stack, links := []*node{t.root}, 0
	for todo := parts; len(todo) > 0; {
		at, name := stack[len(stack)-1], todo[0]
		todo = todo[1:]
		if at.kind != directory {
			return nil, errNoFolder
		}
		switch name {
		case "", ".":
			continue
		case "..":
			stack = stack[:max(1, len(stack)-1)]
			continue
		}
		child := at.children[name].node
		if child == nil {
			return nil, errAbsent
		}
		if child.kind != symlink {
			stack = append(stack, child)
			continue
		}
		if links++; links > maxLinks {
			return nil, errLoop
		}
		if path.IsAbs(child.target) {
			stack = stack[:1]
		}
		todo = append(strings.Split(child.target, "/"), todo...)
	}
	return stack[len(stack)-1], nil
}

// link makes parts a hard link to target. What parts named before is gone
// before the target is looked for, so a link to itself has none.
func (t *tree) link(parts []string, target string, layer int) {
	dir, base := t.parent(parts, layer), parts[len(parts)-1]
	delete(dir.children, base)
	t.set(dir, base, t.linked(target), layer)
}

// linked returns the node that a hard link to target shares. Symlinks are
// followed but for the last component: a link to a symlink is that symlink.
func (t *tree) linked(target string) *node {
	parts, climbs := components(target)
	switch {
	case climbs || len(target) > maxPath:
		return refuse(errBadTarget)
	case len(parts) == 0:
		return refuse(errLinkToDir)
	}
	dir, err := t.lookup(parts[:len(parts)-1])
	if err != nil || dir.kind != directory {
		return refuse(errNoTarget)
	}
	n := dir.children[parts[len(parts)-1]].node
	switch {
	case n == nil:
		return refuse(errNoTarget)
	case n.kind == directory:
		return refuse(errLinkToDir)
	}
	return n
}

// whiteout applies an entry whose name starts with ".wh.".
func (t *tree) whiteout(parts []string, h *tar.Header, layer int) {
	base := parts[len(parts)-1]
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	switch {
	case isMeta(base) && base != opaque:
		return
	case h.Typeflag != tar.TypeReg, hidden == "", hidden == ".", hidden == "..":
		t.put(parts, refuse(errWhiteout), layer)
		return
	}
	dir, err := t.lookup(parts[:len(parts)-1])
	if err != nil || dir.kind != directory {
		return // below nothing there is nothing to hide
	}
	if base == opaque {
		dir.prune(layer)
		return
	}
	if d, ok := dir.children[hidden]; ok && !d.survives(layer) {
		delete(dir.children, hidden)
	}
}

// prune removes what is below a directory and comes from below layer. The mark
// it leaves makes sure that nobody can have the same directory pruned a million times.
func (n *node) prune(layer int) {
	if n.pruned == layer {
		return
	}
	n.pruned = layer
	for name, d := range n.children {
		if !d.survives(layer) {
			delete(n.children, name)
		}
	}
}

// survives says whether a whiteout in layer leaves something of d, and removes the rest.
func (d dirent) survives(layer int) bool {
	if d.node.kind == directory {
		d.node.prune(layer)
		return d.layer == layer || len(d.node.children) > 0
	}
	return d.layer == layer
}
