// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capi-installer/capi-installer/extractor"
)

// projector makes a projection from the entries of a layer, in their order. A
// layer is taken by itself, as container runtimes unpack it before they lay it
// upon the others:
//
//   - Of several entries for one path the last counts; only a directory over a
//     directory merges. The directory that an entry lies in is there.
//   - Whiteouts hide what lower layers have, wherever they stand.
//   - Below a root, directories, regular files and hard links to files of bundles
//     in the same layer are accepted. Everything else that can exist is a refused
//     node: it hides what it replaces, and does harm only if it is part of the answer.
//   - What no unpacker should create is a refusal where it would land: a name
//     that climbs or deceives, an entry below a file, an entry that reaches a root
//     through a symlink of its own layer.
//
// Entries that have nothing to do with a root leave no trace but for symlinks,
// which are remembered until the end of the layer.
type projector struct {
	*projection
	limits Limits
	links  map[string]string // the symlinks of the layer
	text   int64             // about how much memory they take
	count  int               // names that were ever made below roots
	kept   int64             // bytes of contents that were ever kept
	hold   func(int64) error // is told of each of them before it is
}

func newProjector(limits Limits) *projector {
	return &projector{projection: newProjection(), limits: limits, links: map[string]string{}, hold: func(int64) error { return nil }}
}

// maxLinks is how many symlinks a path may lead through: what Linux allows.
const maxLinks = 40

// maxName and maxPath are the lengths in bytes of the longest file name and path that Linux allows.
const maxName, maxPath = 255, 4096

var (
	errBadName   = errors.New("its name is not printable UTF-8 of at most 255 bytes")
	errClimbs    = errors.New("its name climbs with \"..\"")
	errLongPath  = errors.New("its path is longer than a file system holds")
	errSymlink   = errors.New("it is a symlink: a bundle is made of regular files")
	errBadTarget = errors.New("it is a hard link whose target no file system holds")
	errFarTarget = errors.New("it is a hard link to something that is no file of a bundle in the same layer")
	errSparse    = errors.New("it is a sparse file")
	errSlash     = errors.New("it is a file whose name ends with a slash")
	errWhiteout  = errors.New("it is a whiteout that hides nothing that can exist")
	errNoFolder  = errors.New("another entry of the layer lies below it, but it is no directory")
	errThrough   = errors.New("the layer has an entry that reaches this path through a symlink")
)

const (
	whiteoutPrefix = ".wh."
	metaPrefix     = ".wh..wh."
	opaque         = ".wh..wh..opq"
)

// components splits a name of an archive into its components below the image's
// root, and says whether it had a ".." among them. Absolute names, "./" and "//" are other spellings of the same path.
func components(name string) (parts []string, climbs bool) {
	climbs = strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..")
	clean := strings.Trim(path.Clean("/"+name), "/")
	if clean == "" {
		return nil, climbs
	}
	return strings.Split(clean, "/"), climbs
}

// concerns says whether an entry has to do with a root of bundles.
func concerns(parts []string) bool {
	if len(parts) == 1 && strings.HasPrefix(parts[0], whiteoutPrefix) {
		hidden := strings.TrimPrefix(parts[0], whiteoutPrefix)
		return parts[0] == opaque || isRoot(hidden) || strings.Trim(hidden, ".") == "" && len(hidden) < 3
	}
	return len(parts) > 0 && isRoot(parts[0])
}

func isRoot(name string) bool { return slices.Contains(extractor.Roots(), name) }

// entry takes the next entry of the layer. The error is a LimitError, or that of reading content.
func (j *projector) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	parts, climbs := components(h.Name)
	if len(parts) == 0 {
		return nil
	}
	if at := j.through(parts); at != nil {
		if concerns(at) {
			j.refuse(strings.Join(at, "/"), errThrough)
		}
		return within("refused entries", len(j.refusals), j.limits.Files)
	}
	switch {
	case climbs && concerns(parts):
		j.refuse(strings.Join(parts, "/"), errClimbs)
		return nil
	case !climbs && !concerns(parts):
		return j.remember(parts, h)
	case climbs:
		return nil
	}
	if err := j.take(parts, h, content); err != nil {
		return err
	}
	err := errors.Join(
		within("files and directories below "+parts[0], j.count, j.limits.Files),
		within("refused entries", len(j.refusals)+len(j.whiteouts)+len(j.opaques), j.limits.Files),
	)
	if n := j.nodes[strings.Join(parts, "/")]; err != nil || n == nil {
		return err
	}
	return j.remember(parts, h)
}

// remember keeps symlinks, and forgets those that something replaces.
func (j *projector) remember(parts []string, h *tar.Header) error {
	name := strings.Join(parts, "/")
	if h.Typeflag != tar.TypeSymlink {
		if len(j.links) > 0 {
			delete(j.links, name)
		}
		return nil
	}
	const each = 128 // bytes that a map needs for an entry, about
	j.text += int64(len(name) + len(h.Linkname) + each)
	if err := within("bytes of the symlinks of a layer", j.text, j.limits.Links); err != nil {
		return err
	}
	j.links[strings.Clone(name)] = h.Linkname
	return nil
}

// through returns where an entry lands if a directory on its way is a symlink of
// the layer; nil if none is, or if it leads nowhere.
func (j *projector) through(parts []string) []string {
	if len(j.links) == 0 {
		return nil
	}
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	done, links := []string{}, 0
	for todo := dir; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			done = done[:max(0, len(done)-1)]
			continue
		}
		done = append(done, next)
		target, isLink := j.links[strings.Join(done, "/")]
		if !isLink {
			continue
		}
		if links++; links > maxLinks || len(target) > maxPath {
			return nil
		}
		done = done[:len(done)-1]
		if path.IsAbs(target) {
			done = nil
		}
		todo = slices.Concat(strings.Split(target, "/"), todo)
	}
	if links == 0 {
		return nil
	}
	return append(done, base)
}

// refuse records what no unpacker should accept.
func (j *projector) refuse(file string, err error) { j.refusals[file] = err.Error() }

// take takes an entry that concerns a root.
func (j *projector) take(parts []string, h *tar.Header, content io.Reader) error {
	if at, err := j.badPath(parts); err != nil {
		j.refuse(at, err)
		return nil
	}
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	switch {
	case slices.ContainsFunc(dir, isMeta): // in the bookkeeping of another unpacker
		return nil
	case strings.HasPrefix(base, whiteoutPrefix):
		j.whiteout(parts, h)
		return nil
	}
	n, err := j.node(parts, h, content)
	if err == nil {
		j.put(parts, n)
	}
	return err
}

// badPath says what is wrong with a path, and how much of it is enough to say where.
func (j *projector) badPath(parts []string) (at string, err error) {
	for i, part := range parts[:min(len(parts), j.limits.Depth)] {
		at = strings.Join(parts[:i+1], "/")
		switch {
		case len(part) > maxName:
			return at[:len(at)-len(part)+maxName], errBadName
		case badName(part):
			return at, errBadName
		case len(at) > maxPath:
			return at, errLongPath
		case i < len(parts)-1 && strings.HasPrefix(part, whiteoutPrefix) && !isMeta(part):
			return at, errWhiteout
		}
	}
	if len(parts) > j.limits.Depth {
		return at, &LimitError{What: "components of a path", Limit: int64(j.limits.Depth)}
	}
	return "", nil
}

func isMeta(part string) bool { return strings.HasPrefix(part, metaPrefix) }

// badName says whether a name could deceive a person who reads it, or is none that a file system holds.
func badName(name string) bool {
	return len(name) > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// whiteout takes an entry whose name starts with ".wh.".
func (j *projector) whiteout(parts []string, h *tar.Header) {
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	switch {
	case isMeta(base) && base != opaque:
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeLink, hidden == "", hidden == ".", hidden == "..":
		j.refuse(strings.Join(parts, "/"), errWhiteout)
	case !j.mkdirs(dir):
	case base == opaque:
		j.opaques[strings.Join(dir, "/")] = true
	default:
		j.whiteouts[strings.Join(append(slices.Clone(dir), hidden), "/")] = true
	}
}

// node returns what an entry is, with its content if it counts.
func (j *projector) node(parts []string, h *tar.Header, content io.Reader) (*node, error) {
	switch h.Typeflag {
	case tar.TypeDir:
		return &node{kind: directory}, nil
	case tar.TypeReg:
		return j.file(parts, h, content)
	case tar.TypeSymlink:
		return refusedNode(errSymlink), nil
	case tar.TypeLink:
		return j.link(parts, h.Linkname), nil
	}
	return refusedNode(fmt.Errorf("it is %s", typeName(h.Typeflag))), nil
}

func refusedNode(err error) *node { return &node{kind: refused, reason: err.Error()} }

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

// file reads a regular file as far as it counts. Nothing is allocated before its size is known to be allowed.
func (j *projector) file(parts []string, h *tar.Header, content io.Reader) (*node, error) {
	limit := extractor.Limit(strings.Join(parts, "/"))
	n := &node{kind: regular, size: h.Size}
	switch {
	case isSparse(h):
		return refusedNode(errSparse), nil
	case strings.HasSuffix(h.Name, "/"):
		return refusedNode(errSlash), nil
	case limit == 0:
		return n, nil
	case h.Size > limit:
		return refusedNode(&LimitError{What: "bytes of the file", Limit: limit}), nil
	}
	if err := within("bytes of files of bundles", j.kept+h.Size, j.limits.Total); err != nil {
		return nil, err
	}
	if err := j.hold(h.Size); err != nil {
		return nil, err
	}
	j.kept += h.Size
	n.data = make([]byte, h.Size)
	_, err := io.ReadFull(content, n.data)
	return n, err
}

// isSparse says whether an entry says less than its size: its holes cost nothing to declare.
func isSparse(h *tar.Header) bool {
	for key := range maps.Keys(h.PAXRecords) {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// link returns the file that a hard link shares. What is at parts is gone before
// the target is looked for, so that a link to itself has none.
func (j *projector) link(parts []string, target string) *node {
	to, climbs := components(target)
	if climbs || len(target) > maxPath || len(to) == 0 {
		return refusedNode(errBadTarget)
	}
	file := strings.Join(parts, "/")
	n := j.nodes[strings.Join(to, "/")]
	switch {
	case n == nil, n.kind != regular, below(file)(strings.Join(to, "/")):
		return refusedNode(errFarTarget)
	case n.data == nil && extractor.Limit(file) > 0:
		return refusedNode(errFarTarget)
	case n.size > extractor.Limit(file) && extractor.Limit(file) > 0:
		return refusedNode(&LimitError{What: "bytes of the file", Limit: extractor.Limit(file)})
	}
	return n
}

// put makes n what parts name, in place of what they named before.
func (j *projector) put(parts []string, n *node) {
	if !j.mkdirs(parts[:len(parts)-1]) {
		return
	}
	file := strings.Join(parts, "/")
	old := j.nodes[file]
	if old != nil && old.kind == directory {
		if n.kind == directory {
			return
		}
		maps.DeleteFunc(j.nodes, func(other string, _ *node) bool { return strings.HasPrefix(other, file+"/") })
		maps.DeleteFunc(j.links, func(other, _ string) bool { return strings.HasPrefix(other, file+"/") })
	}
	j.nodes[file] = n
	j.count++
}

// mkdirs makes a directory with those above it, as every unpacker does for an
// entry in it, and says whether it is one. A file on the way is refused: what
// lies below it is for no unpacker.
func (j *projector) mkdirs(parts []string) bool {
	for i := range parts {
		dir := strings.Join(parts[:i+1], "/")
		switch n := j.nodes[dir]; {
		case n == nil:
			j.nodes[dir] = &node{kind: directory}
			j.count++
		case n.kind == refused:
			return false
		case n.kind == regular:
			j.refuse(dir, errNoFolder)
			return false
		}
	}
	return true
}
