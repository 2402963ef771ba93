// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// answer is what a tree shows at the roots of bundles: what a process whose
// root directory is the image would find there.
type answer struct {
	tree   *tree
	layers []v1.Descriptor
	files  map[string]*node
	count  int
	errs   []error
}

// answer finds the regular files at and below extractor.Roots, by the paths
// under which they are found there. A directory is listed with a slash at its end, and a nil node.
// layers are the layers that the tree was made of; errors name them.
func (t *tree) answer(layers []v1.Descriptor) (map[string]*node, error) {
	a := &answer{tree: t, layers: layers, files: map[string]*node{}}
	for _, root := range extractor.Roots() {
		if parts := strings.Split(root, "/"); t.dirent(parts).node != nil {
			a.visit(parts, nil)
		}
	}
	return a.files, errors.Join(a.errs...)
}

// dirent returns what parts name, symlinks followed but for the last component; its node is nil if there is nothing.
func (t *tree) dirent(parts []string) dirent {
	dir, err := t.lookup(parts[:len(parts)-1])
	if err != nil {
		return dirent{}
	}
	return dir.children[parts[len(parts)-1]]
}

// visit adds what is at parts and below it. above are the directories on the
// way: a symlink to one of them would make the answer endless.
func (a *answer) visit(parts []string, above []*node) {
	if a.count++; a.count > a.tree.limits.Files {
		if a.count == a.tree.limits.Files+1 {
			a.refuse(parts, &LimitError{What: "files below " + parts[0], Limit: int64(a.tree.limits.Files)})
		}
		return
	}
	n, err := a.tree.lookup(parts)
	file := strings.Join(parts, "/")
	switch {
	case err != nil:
		a.refuse(parts, fmt.Errorf("it is a symlink whose target %w", err))
	case badName(parts[len(parts)-1]):
		a.refuse(parts, errBadName)
	case n.kind == refused:
		a.refuse(parts, n.err)
	case n.kind == regular:
		a.files[file] = n
	case slices.Contains(above, n):
		a.refuse(parts, errors.New("it is a symlink to a directory that it lies in"))
	case len(parts) > a.tree.limits.Depth:
		a.refuse(parts, &LimitError{What: "components of a path", Limit: int64(a.tree.limits.Depth)})
	default:
		a.files[file+"/"] = nil
		above = append(slices.Clone(above), n)
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			a.visit(append(slices.Clone(parts), name), above)
		}
	}
}

func (a *answer) refuse(parts []string, err error) {
	a.errs = append(a.errs, &extractor.Error{
		Layer: a.layers[a.tree.dirent(parts).layer].Digest.String(),
		File:  printable(parts),
		Err:   &extractor.InvalidError{Err: err},
	})
}

// printable joins parts to a path that is safe to print.
func printable(parts []string) string {
	file := strings.Join(parts, "/")
	if slices.ContainsFunc(parts, badName) {
		return fmt.Sprintf("%+.200q", file)
	}
	return file
}

var errBadName = errors.New("its name is not printable UTF-8 of at most 255 bytes")

// badName says whether a name could deceive a person who reads it, or is none that a file system holds.
func badName(name string) bool {
	return len(name) > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
