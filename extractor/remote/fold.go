// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// view is what the layers seen so far, from the top, show at the roots of
// bundles. Layers are added from the top to the bottom: what is seen stays, and
// what a layer hides is hidden in all that come after it, but not in itself.
type view struct {
	seen     map[string]placed
	refusals map[string]placed
	// whiteouts and opaques are what the layers hide in lower ones, as in a
	// projection; what is no directory hides what is below it.
	whiteouts, opaques map[string]bool
	kept               int64
}

// placed is a node with the layer that put it there.
type placed struct {
	*node
	layer v1.Hash
}

func newView() *view {
	return &view{seen: map[string]placed{}, refusals: map[string]placed{}, whiteouts: map[string]bool{}, opaques: map[string]bool{}}
}

// add adds the next lower layer. It is an error if more is seen than the limits allow.
func (v *view) add(layer v1.Hash, p *projection, limits Limits) error {
	if p.broken != nil {
		return p.broken
	}
	shows := map[string]*node{}
	for file, n := range p.nodes {
		if _, above := v.seen[file]; !above && !v.hidden(file) {
			shows[file] = n
			v.kept += int64(len(n.data))
		}
	}
	for file, reason := range p.refusals {
		if _, above := v.seen[file]; !above && !v.hidden(file) {
			v.refusals[file] = placed{&node{kind: refused, reason: reason}, layer}
		}
	}
	for file, n := range shows {
		v.seen[file] = placed{n, layer}
	}
	for file, n := range p.nodes {
		if n.kind != directory {
			v.whiteouts[file] = true // what is below it in lower layers is gone, whatever an upper one made of it
		}
	}
	maps.Copy(v.whiteouts, p.whiteouts)
	maps.Copy(v.opaques, p.opaques)
	return errors.Join(
		within("files below the roots of bundles", len(v.seen), limits.Files),
		within("bytes of files of bundles", v.kept, limits.Total))
}

// hidden says whether the layers above hide what a lower one has at a path.
func (v *view) hidden(file string) bool {
	for at := file; at != "."; at = path.Dir(at) {
		if v.whiteouts[at] || at != file && v.opaques[at] {
			return true
		}
	}
	return v.opaques[""]
}

// closed says whether no lower layer can show anything at a root.
func (v *view) closed(root string) bool {
	return v.opaques[""] || v.whiteouts[root] || v.opaques[root]
}

// decided says whether no lower layer can change the answer.
func (v *view) decided() bool {
	if _, complete := v.complete(); complete {
		return true
	}
	for _, root := range extractor.Roots() {
		if !v.closed(root) {
			return false
		}
		if _, there := v.seen[root]; there {
			return true // the first root that is there is the only one that counts
		}
	}
	return true
}

// answer returns what the layers show where bundles lie. Errors are, or join, errors of type *extractor.Error.
func (v *view) answer() (extractor.Files, error) {
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

// complete returns the files of a bundle that says itself that nothing else is part of it.
func (v *view) complete() (extractor.Files, bool) {
	if len(v.refusals) > 0 {
		return nil, false
	}
	return v.files().Complete()
}

// root is the root that counts; "" if there is none.
func (v *view) root() string {
	for _, root := range extractor.Roots() {
		if _, there := v.seen[root]; there {
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

// wrong says all that is refused at and below a root, and in the image's own root.
func (v *view) wrong(root string) error {
	var errs []error
	for _, refusals := range []map[string]placed{v.refusals, v.seen} {
		for _, file := range slices.Sorted(maps.Keys(refusals)) {
			if n := refusals[file]; n.kind == refused && (below(root)(file) || !strings.Contains(file, "/") && !isRoot(file)) {
				errs = append(errs, &extractor.Error{Layer: n.layer.String(), File: printable(file), Err: invalid(errors.New(n.reason))})
			}
		}
	}
	const most = 100
	return errors.Join(errs[:min(len(errs), most)]...)
}

// files are the directories and regular files that show, as extractor.Files.
func (v *view) files() extractor.Files {
	files := extractor.Files{}
	for file, n := range v.seen {
		n.addTo(files, file)
	}
	return files
}

// addTo adds what a node is to files.
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

// printable is a path that is safe to print.
func printable(file string) string {
	if slices.ContainsFunc(strings.Split(file, "/"), badName) {
		return fmt.Sprintf("%+.200q", file)
	}
	return file
}
