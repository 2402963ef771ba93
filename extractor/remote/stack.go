// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// stack is the layers of an image from the bottom to the top, on their way to be one tree.
type stack struct {
	*unpacking
	layers  []v1.Descriptor
	diffIDs []v1.Hash
	spools  map[v1.Hash]*spool // verified
	budget  budget
}

// files returns what the layers, applied one upon the other, show at the roots
// of bundles. It takes one pass over each layer, and a second one over those
// whose files show under another path than their own.
func (u *unpacking) files(ctx context.Context, layers []v1.Descriptor, diffIDs []v1.Hash) (files extractor.Files, err error) {
	s := &stack{unpacking: u, layers: layers, diffIDs: diffIDs, spools: map[v1.Hash]*spool{}, budget: budget{limits: u.limits}}
	defer func() { err = errors.Join(err, s.close()) }()
	t := newTree(u.limits)
	for n := range layers {
		if err := s.apply(ctx, t, n); err != nil {
			return nil, &extractor.Error{Layer: layers[n].Digest.String(), Err: err}
		}
	}
	nodes, err := t.answer(layers)
	if err != nil {
		return nil, err
	}
	return s.contents(ctx, nodes)
}

func (s *stack) close() error {
	var errs []error
	for _, spool := range s.spools {
		errs = append(errs, spool.close())
	}
	return errors.Join(errs...)
}

// apply gets and verifies the n-th layer and applies it to the tree.
func (s *stack) apply(ctx context.Context, t *tree, n int) error {
	layer := s.layers[n]
	if s.spools[layer.Digest] == nil {
		err := s.blob(ctx, "layer", layer, func(body io.Reader) (err error) {
			verified, err := fill(s.spoolDir, "layer", layer, body)
			if err == nil {
				s.spools[layer.Digest] = verified
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.scan(ctx, n, &s.budget, func(entry int, h *tar.Header, content io.Reader) error {
		data, err := s.budget.keep(h, content)
		if err != nil {
			return err
		}
		return t.apply(h, place{layer: n, entry: entry}, data)
	})
}

// scan visits the entries of the n-th layer. What is wrong with it is wrong with the image: its bytes are verified.
func (s *stack) scan(ctx context.Context, n int, b *budget, see visit) error {
	err := s.spools[s.layers[n].Digest].scan(ctx, b, s.diffIDs[n], see)
	if ctx.Err() != nil || errors.Is(err, errSeen) {
		return err
	}
	return invalid(err)
}

// keep reads a file that is a part of a bundle if it stays where its name puts it. It returns nil for all others.
func (b *budget) keep(h *tar.Header, content io.Reader) ([]byte, error) {
	if h.Typeflag != tar.TypeReg {
		return nil, nil
	}
	parts, _ := components(h.Name)
	limit := extractor.Limit(strings.Join(parts, "/"))
	if limit == 0 || h.Size > limit || b.kept+h.Size > b.limits.Total {
		return nil, nil
	}
	b.kept += h.Size
	return io.ReadAll(content)
}

// contents reads the files that were found, no more of each than is enough to see that it is too long.
func (s *stack) contents(ctx context.Context, nodes map[string]*node) (extractor.Files, error) {
	files := extractor.Files{}
	missing := map[place][]string{}
	var total int64
	for file, n := range nodes {
		switch limit := extractor.Limit(file); {
		case n == nil:
			files[file] = nil
			continue
		case limit == 0:
			files[file] = []byte{}
			continue
		case n.data != nil:
			files[file] = n.data
		default:
			missing[n.at] = append(missing[n.at], file)
		}
		total += min(n.size, extractor.Limit(file)+1)
	}
	if err := within("bytes of files of bundles", total, s.limits.Total); err != nil {
		return nil, invalid(err)
	}
	return files, s.again(ctx, files, missing)
}

// errSeen ends a second pass.
var errSeen = errors.New("everything needed was seen")

// again reads the files that are missing at their places.
func (s *stack) again(ctx context.Context, files extractor.Files, missing map[place][]string) error {
	for n := range s.layers {
		left := 0
		for at := range missing {
			if at.layer == n {
				left++
			}
		}
		if left == 0 {
			continue
		}
		err := s.scan(ctx, n, &budget{limits: s.limits}, func(entry int, _ *tar.Header, content io.Reader) error {
			names := missing[place{layer: n, entry: entry}]
			if names == nil {
				return nil
			}
			if err := read(files, names, content); err != nil {
				return err
			}
			if left--; left == 0 {
				return errSeen
			}
			return nil
		})
		if err != nil && !errors.Is(err, errSeen) {
			return &extractor.Error{Layer: s.layers[n].Digest.String(), Err: err}
		}
	}
	return nil
}

// read reads one content for all the files that have it.
func read(files extractor.Files, names []string, content io.Reader) error {
	var most int64
	for _, name := range names {
		most = max(most, extractor.Limit(name)+1)
	}
	data, err := io.ReadAll(io.LimitReader(content, most))
	for _, name := range names {
		files[name] = data[:min(int64(len(data)), extractor.Limit(name)+1)]
	}
	return err
}
