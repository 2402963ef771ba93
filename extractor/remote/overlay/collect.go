// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
)

// collector builds an Index from the entries of a layer, in their order. It processes each layer separately, as
// container runtimes unpack it before they put it on top of the others:
//
//   - Of several entries for one path the last one wins; only a directory and a directory merge. The parent
//     directories of an entry are created implicitly.
//   - Whiteouts hide the content of lower layers, in any position in the layer.
//   - Below a root, directories, regular files and hard links to files in the same layer are accepted.
//     Any other entry that can exist is a refused node: it hides the replaced entry, and is an error only if it is
//     part of the result.
//   - An entry that no unpacker should create is a refusal at the path where it would be created: a name with "..",
//     an unprintable name, an entry below a file, an entry that reaches a root through a symlink of its own layer.
//
// Of entries outside of the roots, only the symlinks are stored, until the end of the layer.
type collector struct {
	*Index
	limits  Limits
	links   links
	created int               // number of names that were created below roots, also if replaced
	kept    int64             // total size of the contents that were read, also if replaced
	reserve func(int64) error // called with the size of each content before it is read
	wanted  Targets
	shared  map[string]*node // the current files at the paths of wanted
}

func newCollector(limits Limits, reserve func(int64) error) *collector {
	return &collector{Index: newIndex(), limits: limits, links: links{limits: limits}, reserve: reserve, shared: map[string]*node{}}
}

var (
	errBadName   = errors.New("invalid name: want printable UTF-8 of at most 255 bytes")
	errClimbs    = errors.New("invalid name: it contains \"..\"")
	errLongPath  = errors.New("invalid name: the path is too long for a file system")
	errSymlink   = errors.New("invalid type symlink: want a regular file")
	errBadTarget = errors.New("invalid hard link: the target is not a valid path")
	errFarTarget = errors.New("invalid hard link: the target is not a file in the same layer")
	errSparse    = errors.New("invalid type sparse file: want a regular file")
	errSlash     = errors.New("invalid name: a file whose name ends with a slash")
	errWhiteout  = errors.New("invalid whiteout: the hidden path cannot exist")
	errNoFolder  = errors.New("not a directory, but the layer has an entry below it")
	errThrough   = errors.New("the layer has an entry that reaches this path through a symlink")
	errOverlay   = errors.New("invalid extended attribute of overlayfs: container runtimes treat it differently")
	errOpaqueTop = errors.New("invalid opaque whiteout of the image's root: container runtimes treat it differently")
)

// entry adds the next entry of the layer. The error is a LimitError, or comes from reading content.
func (c *collector) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	parts, climbs := components(h.Name)
	if len(parts) == 0 || len(h.Name) > maxPath && !concerns(parts) { // longer than a file system allows
		return c.rootEntry(parts, h)
	}
	at, ok, err := c.links.resolve(parts)
	if err != nil {
		return err
	}
	switch {
	case !ok: // not created: too many symlinks
		return nil
	case len(c.wanted) > 0:
		err = c.share(strings.Join(at, "/"), h, content)
	}
	switch {
	case err != nil:
		return err
	case !slices.Equal(at, parts):
		if concerns(at) {
			c.refuse(strings.Join(at, "/"), errThrough)
		}
		return errors.Join(CheckLimit("refused entries", len(c.refusals), c.limits.Files), c.links.record(at, h))
	case climbs && concerns(parts):
		c.refuse(strings.Join(parts, "/"), errClimbs)
		return nil
	case !concerns(parts):
		return c.links.record(at, h)
	}
	return c.bundleEntry(parts, h, content)
}

// share reads an entry if hard links of bundles share it.
func (c *collector) share(file string, h *tar.Header, content io.Reader) (err error) {
	if limit, wanted := c.wanted[file]; wanted && h.Typeflag == tar.TypeReg {
		c.shared[file], err = c.file(limit, h, content)
	} else if wanted {
		delete(c.shared, file)
	}
	return err
}

// rootEntry checks an entry for the root of the image.
func (c *collector) rootEntry(parts []string, h *tar.Header) error {
	if len(parts) == 0 && hasOverlayAttribute(h) {
		c.refuse(".", errOverlay)
	}
	return nil
}

// bundleEntry adds an entry at or below a root of bundles.
func (c *collector) bundleEntry(parts []string, h *tar.Header, content io.Reader) error {
	if err := c.take(parts, h, content); err != nil {
		return err
	}
	err := errors.Join(
		CheckLimit("files and directories below "+parts[0], c.created, c.limits.Files),
		CheckLimit("refused entries", len(c.refusals)+len(c.whiteouts)+len(c.opaques), c.limits.Files),
	)
	if n := c.nodes[strings.Join(parts, "/")]; err != nil || n == nil {
		return err
	}
	return c.links.record(parts, h)
}

// hasOverlayAttribute reports whether an entry has an extended attribute of overlayfs, such
// as the mark of an opaque directory or a redirect.
func hasOverlayAttribute(h *tar.Header) bool {
	for key := range h.PAXRecords {
		name, isAttribute := strings.CutPrefix(key, "SCHILY.xattr.")
		if isAttribute && (strings.HasPrefix(name, "trusted.overlay.") || strings.HasPrefix(name, "user.overlay.")) {
			return true
		}
	}
	return false
}

// refuse records an entry that no unpacker should create.
func (c *collector) refuse(file string, err error) { c.refusals[file] = err.Error() }

// take adds an entry at or below a root.
func (c *collector) take(parts []string, h *tar.Header, content io.Reader) error {
	if at, err := c.badPath(parts); err != nil {
		c.refuse(at, err)
		return nil
	}
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	switch {
	case slices.ContainsFunc(dir, isMeta): // metadata of aufs
		return nil
	case hasOverlayAttribute(h):
		c.refuse(strings.Join(parts, "/"), errOverlay)
		return nil
	case strings.HasPrefix(base, whiteoutPrefix):
		c.whiteout(parts, h)
		return nil
	}
	n, err := c.node(parts, h, content)
	if err == nil {
		c.put(parts, n)
	}
	return err
}

// node returns the node of an entry, with its content if it is a file of a bundle.
func (c *collector) node(parts []string, h *tar.Header, content io.Reader) (*node, error) {
	switch h.Typeflag {
	case tar.TypeDir:
		return &node{kind: directory}, nil
	case tar.TypeReg, tar.TypeGNUSparse:
		return c.file(extractor.Limit(strings.Join(parts, "/")), h, content)
	case tar.TypeSymlink:
		return refusedNode(errSymlink), nil
	case tar.TypeLink:
		return c.link(parts, h.Linkname), nil
	}
	return refusedNode(fmt.Errorf("invalid type %s: want a regular file", typeName(h.Typeflag))), nil
}

func refusedNode(err error) *node { return &node{kind: refused, reason: err.Error()} }

// typeName returns the name of a refused entry type.
func typeName(flag byte) string {
	switch flag {
	case tar.TypeChar:
		return "character device"
	case tar.TypeBlock:
		return "block device"
	case tar.TypeFifo:
		return "named pipe"
	}
	return fmt.Sprintf("%q of an archive entry", flag)
}

// file reads a regular file of at most limit bytes; with the limit 0 only its type. Memory is allocated after its size was checked.
func (c *collector) file(limit int64, h *tar.Header, content io.Reader) (*node, error) {
	n := &node{kind: regular, size: h.Size}
	switch {
	case strings.HasSuffix(h.Name, "/"):
		return refusedNode(errSlash), nil
	case limit == 0:
		return n, nil
	case isSparse(h):
		return refusedNode(errSparse), nil
	case h.Size > limit:
		return refusedNode(&LimitError{What: "bytes of the file", Limit: limit}), nil
	}
	if err := CheckLimit("bytes of files of bundles", c.kept+h.Size, c.limits.Total); err != nil {
		return nil, err
	}
	if err := c.reserve(h.Size); err != nil {
		return nil, &reserveError{err}
	}
	c.kept += h.Size
	n.data = make([]byte, h.Size)
	_, err := io.ReadFull(content, n.data)
	return n, err
}

// isSparse reports whether an entry is a sparse file: an archive can declare holes of any size at no cost.
func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// link returns the file that a hard link shares. Unpackers remove the existing file at parts before they look up the
// target, so a link to itself has no target.
func (c *collector) link(parts []string, target string) *node {
	to, climbs := components(target)
	if climbs || len(target) > maxPath || len(to) == 0 {
		return refusedNode(errBadTarget)
	}
	file := strings.Join(parts, "/")
	n := c.nodes[strings.Join(to, "/")]
	if from, ok, err := c.links.resolve(to); n == nil && ok && err == nil && !concerns(from) {
		n = c.outside(strings.Join(from, "/"), extractor.Limit(file))
	}
	switch {
	case n != nil && n.kind == refused && !concerns(to):
		return n
	case n == nil, n.kind != regular, below(file)(strings.Join(to, "/")):
		return refusedNode(errFarTarget)
	case n.data == nil && extractor.Limit(file) > 0:
		return refusedNode(errFarTarget)
	case n.size > extractor.Limit(file) && extractor.Limit(file) > 0:
		return refusedNode(&LimitError{What: "bytes of the file", Limit: extractor.Limit(file)})
	}
	return n
}

// outside returns a file outside of the roots; nil if it is unknown: a second scan reads it.
func (c *collector) outside(file string, limit int64) *node {
	if n := c.shared[file]; n != nil || c.wanted != nil {
		return n
	}
	if c.targets == nil {
		c.targets = Targets{}
	}
	c.targets[file] = max(c.targets[file], limit)
	return nil
}

// put sets the node at a path, and replaces an existing one.
func (c *collector) put(parts []string, n *node) {
	if !c.mkdirs(parts[:len(parts)-1]) {
		return
	}
	file := strings.Join(parts, "/")
	old := c.nodes[file]
	if old != nil && old.kind == directory {
		if n.kind == directory {
			return
		}
		maps.DeleteFunc(c.nodes, func(other string, _ *node) bool { return strings.HasPrefix(other, file+"/") })
	}
	c.nodes[file] = n
	c.created++
}

// mkdirs creates a directory with its parents, as unpackers do for an entry in it, and reports whether it exists now. A
// file among the parents is refused: unpackers fail at entries below it.
func (c *collector) mkdirs(parts []string) bool {
	for i := range parts {
		dir := strings.Join(parts[:i+1], "/")
		switch n := c.nodes[dir]; {
		case n == nil:
			c.nodes[dir] = &node{kind: directory}
			c.created++
		case n.kind == refused:
			return false
		case n.kind == regular:
			c.refuse(dir, errNoFolder)
			return false
		}
	}
	return true
}
