// SPDX-License-Identifier: Apache-2.0

// Package overlay computes the files that an image has at the roots of bundles, as if all of its layers were unpacked
// on top of each other. It works in memory and reads only the necessary layers.
//
// A Scanner reads a layer once and returns its Index, the few entries that concern bundles. An Overlay merges indexes
// from the top layer down, with the whiteouts, opaque whiteouts, hard links and replaced entries of the OCI image
// specification (layer.md), until no lower layer can change the result:
//
//	o := overlay.New(overlay.Limits{})
//	for _, layer := range slices.Backward(layers) {
//		index, _, err := overlay.Scanner{}.Scan(ctx, body, layer.Size)
//		…
//		err = o.Add(layer.Digest, index)
//		if o.Decided() {
//			break
//		}
//	}
//	files, err := o.Files()
//
// Entries that container runtimes treat differently, or that no unpacker should create, are errors if they are part of
// the result.
package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// Overlay is the union of the top layers of an image, at the roots of bundles. Layers are added from top to bottom: a
// visible entry stays, and the whiteouts of a layer hide entries of layers that are added later, but not its own. It is
// not safe for concurrent use.
type Overlay struct {
	limits   Limits
	visible  map[string]layerNode
	refusals map[string]layerNode
	// whiteouts and opaques come from all added layers, as in an Index; a file also hides the entries of lower
	// layers below its path.
	whiteouts, opaques map[string]bool
	size               int64
}

// layerNode is a node and its layer.
type layerNode struct {
	*node
	layer v1.Hash
}

// New returns an Overlay without layers.
func New(limits Limits) *Overlay {
	return &Overlay{
		limits: limits.WithDefaults(), visible: map[string]layerNode{}, refusals: map[string]layerNode{},
		whiteouts: map[string]bool{}, opaques: map[string]bool{},
	}
}

// Size returns the size of the visible files of bundles, in bytes.
func (v *Overlay) Size() int64 { return v.size }

// Add adds the index of the next lower layer. It returns an error if the layer is invalid or a limit is exceeded.
func (v *Overlay) Add(layer v1.Hash, p *Index) error {
	if p.Err != nil {
		return p.Err
	}
	shows := map[string]*node{}
	for file, n := range p.nodes {
		if _, above := v.visible[file]; !above && !v.hidden(file) {
			shows[file] = n
			v.size += int64(len(n.data))
		}
	}
	for file, reason := range p.refusals {
		if _, above := v.visible[file]; !above && !v.hidden(file) {
			v.refusals[file] = layerNode{&node{kind: refused, reason: reason}, layer}
		}
	}
	for file, n := range shows {
		v.visible[file] = layerNode{n, layer}
	}
	for file, n := range p.nodes {
		if n.kind != directory {
			v.whiteouts[file] = true // unpackers remove the directory of a lower layer, also if an upper layer has the directory again
		}
	}
	maps.Copy(v.whiteouts, p.whiteouts)
	maps.Copy(v.opaques, p.opaques)
	return errors.Join(
		CheckLimit("files below the roots of bundles", len(v.visible), v.limits.Files),
		CheckLimit("bytes of files of bundles", v.size, v.limits.Total))
}

// hidden reports whether a whiteout of an upper layer hides a path of the next layer.
func (v *Overlay) hidden(file string) bool {
	for at := file; at != "."; at = path.Dir(at) {
		if v.whiteouts[at] || at != file && v.opaques[at] {
			return true
		}
	}
	return false
}

// closed reports whether the layers so far hide a root in all lower layers.
func (v *Overlay) closed(root string) bool {
	return v.whiteouts[root] || v.opaques[root]
}

// Decided reports whether no lower layer can change the result of Files.
func (v *Overlay) Decided() bool {
	if _, complete := v.complete(); complete {
		return true
	}
	for _, root := range extractor.Roots() {
		if !v.closed(root) {
			return false
		}
		if _, there := v.visible[root]; there {
			return true // only the first existing root is read
		}
	}
	return true
}

// Files returns the visible files of the first existing root. Errors are, or join, errors of type *extractor.Error and
// are an extractor.ErrInvalid: one for each refused entry.
func (v *Overlay) Files() (extractor.Files, error) {
	if files, ok := v.complete(); ok {
		return files, nil
	}
	root := v.root()
	if err := v.wrong(root); err != nil {
		return nil, err
	}
	files := v.files()
	maps.DeleteFunc(files, func(file string, _ []byte) bool { return !below(root)(file) })
	return files, nil
}

// complete returns the files of a bundle whose metadata proves that they are complete.
func (v *Overlay) complete() (extractor.Files, bool) {
	if len(v.refusals) > 0 {
		return nil, false
	}
	return v.files().Complete()
}

// root returns the first existing root; "" if none exists.
func (v *Overlay) root() string {
	for _, root := range extractor.Roots() {
		if _, there := v.visible[root]; there {
			return root
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(v.refusals)), below(root)) {
			return root
		}
	}
	return ""
}

func below(root string) func(string) bool {
	return func(file string) bool { return file == root || strings.HasPrefix(file, root+"/") }
}

// wrong returns the refusals at and below a root, and those at the root of the image.
func (v *Overlay) wrong(root string) error {
	var errs []error
	for _, refusals := range []map[string]layerNode{v.refusals, v.visible} {
		for _, file := range slices.Sorted(maps.Keys(refusals)) {
			if n := refusals[file]; n.kind == refused && (below(root)(file) || !strings.Contains(file, "/") && !isRoot(file)) {
				errs = append(errs, &extractor.Error{Layer: n.layer.String(), File: printable(file), Err: &extractor.InvalidError{Err: errors.New(n.reason)}})
			}
		}
	}
	const most = 100
	return errors.Join(errs[:min(len(errs), most)]...)
}

// files returns the visible directories and regular files.
func (v *Overlay) files() extractor.Files {
	files := extractor.Files{}
	for file, n := range v.visible {
		n.addTo(files, file)
	}
	return files
}

// printable returns a path that is safe to print.
func printable(file string) string {
	if slices.ContainsFunc(strings.Split(file, "/"), badName) {
		return fmt.Sprintf("%+.200q", file)
	}
	return file
}

// Limits bound the cost of one layer and of all layers of an image together. A zero field has its default; no limit can
// be disabled. Sizes are in bytes.
type Limits struct {
	// Unpacked is the maximum decompressed size of a layer; default 16 GiB.
	Unpacked int64
	// Ratio is the maximum ratio of the decompressed to the compressed size of a layer. It applies to layers with a
	// decompressed size above 64 MiB; default 200.
	Ratio int64
	// Entries is the maximum number of archive entries in a layer; default 2,000,000.
	Entries int
	// Links is the maximum memory for the symlinks of a layer; default 16 MiB.
	Links int64
	// LinkSteps is the maximum number of components of symlink targets that are followed to resolve the paths of a
	// layer's entries; default 4,000,000.
	LinkSteps int
	// Depth is the maximum number of components of a path; default 128.
	Depth int
	// Files is the maximum number of files and directories below the roots; default 1000.
	Files int
	// Total is the maximum size of all files of bundles, in a layer and in an image; default 40 MiB. extractor.Limit is
	// the limit of one file.
	Total int64
}

const (
	kib int64 = 1 << 10
	mib       = kib << 10
	gib       = mib << 10

	// ratioFloor is the largest decompressed size that Limits.Ratio does not limit.
	ratioFloor = 64 * mib
)

// WithDefaults returns the limits with defaults for zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Unpacked:  cmp.Or(l.Unpacked, 16*gib),
		Ratio:     cmp.Or(l.Ratio, 200),
		Entries:   cmp.Or(l.Entries, 2_000_000),
		Links:     cmp.Or(l.Links, 16*mib),
		LinkSteps: cmp.Or(l.LinkSteps, 4_000_000),
		Depth:     cmp.Or(l.Depth, 128),
		Files:     cmp.Or(l.Files, 1000),
		Total:     cmp.Or(l.Total, 40*mib),
	}
}

// LimitError reports that an image exceeds a limit.
type LimitError struct {
	// The exceeded quantity, such as "layers".
	What string
	// Limit is the maximum.
	Limit int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: more than the limit of %d", e.What, e.Limit)
}

// CheckLimit returns a *LimitError if n is more than limit.
func CheckLimit[N int | int64](what string, n, limit N) error {
	if n <= limit {
		return nil
	}
	return &LimitError{What: what, Limit: int64(limit)}
}
