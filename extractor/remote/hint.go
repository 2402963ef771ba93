// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// The hints that an image gives, as annotations of its manifest or, where there
// are none, as labels of its config. They are part of what the image's digest is
// of, and so bind what they name. A wrong hint is an error: reading on without it
// would hide that two readers see two contents.
const (
	// HintLayer names the layer that the bundle lies in, by its digest. Lower
	// layers have no part in the bundle.
	HintLayer = "capi-operator.openshift.io/manifests-layer"
	// HintListing is the digest of the bundle's listing: of metadata.json, which
	// names the digest of the manifests. Files that match need no other proof.
	HintListing = "capi-operator.openshift.io/manifests-listing"
)

// claim is what an image says about where its bundle is.
type claim struct {
	layer   v1.Hash
	index   int // of the layer
	listing digest.Digest
}

// claim returns the image's hint, nil if it gives none. The labels are looked at
// only if the layer that a reader starts with is larger than what they cost.
func (u *unpacking) claim(ctx context.Context, m *v1.Manifest) (*claim, error) {
	texts := m.Annotations
	if texts[HintLayer] == "" && texts[HintListing] == "" {
		if m.Layers[len(m.Layers)-1].Size < worthALabel || u.known(ctx, m.Layers[len(m.Layers)-1].Digest) {
			return nil, nil
		}
		config, err := u.config(ctx, m)
		if err != nil {
			return nil, err
		}
		texts = config.Config.Labels
	}
	if texts[HintLayer] == "" && texts[HintListing] == "" {
		return nil, nil
	}
	h, err := parseClaim(texts, m)
	return h, invalid(err)
}

// worthALabel is the size from which a layer is worth a request for the labels.
const worthALabel = mib

func parseClaim(texts map[string]string, m *v1.Manifest) (*claim, error) {
	layer, err := v1.NewHash(texts[HintLayer])
	if err != nil {
		return nil, fmt.Errorf("reading the hint %s: %w", HintLayer, err)
	}
	h := &claim{layer: layer, index: -1, listing: digest.Digest(texts[HintListing])}
	if err := h.listing.Validate(); err != nil || h.listing.Algorithm() != digest.SHA256 {
		return nil, fmt.Errorf("reading the hint %s: %q is not a sha256 digest", HintListing, texts[HintListing])
	}
	for i, l := range m.Layers {
		if l.Digest == layer {
			h.index = i
		}
	}
	if h.index < 0 {
		return nil, fmt.Errorf("the hint %s names the layer %s, which the image does not have: pack the bundle anew", HintLayer, layer)
	}
	return h, nil
}

// binds says whether a hint binds the bundle that is among files, and returns it.
func (h *claim) binds(files extractor.Files) (extractor.Files, bool) {
	complete, ok := files.Complete()
	return complete, ok && complete.Listing() == h.listing
}

// hinted returns the bundle that a hint names. The layers above the hint's must
// have nothing to do with bundles, or the hint is wrong.
func (u *unpacking) hinted(ctx context.Context, m *v1.Manifest, h *claim) (extractor.Files, error) {
	v := newView()
	for i := len(m.Layers) - 1; i > h.index; i-- {
		if err := u.show(ctx, v, m.Layers[i]); err != nil {
			return nil, err
		}
	}
	if len(v.seen)+len(v.refusals)+len(v.whiteouts)+len(v.opaques) > 0 {
		return nil, h.wrong(errors.New("a layer above it has to do with the bundle too"))
	}
	p, err := u.layer(ctx, m.Layers[h.index], func(p *projection) bool {
		_, bound := h.binds(p.files())
		return bound
	})
	if err != nil {
		return nil, &extractor.Error{Layer: h.layer.String(), Err: err}
	}
	if p.broken != nil {
		return nil, &extractor.Error{Layer: h.layer.String(), Err: invalid(p.broken)}
	}
	files, bound := h.binds(p.files())
	if !bound {
		return nil, h.wrong(fmt.Errorf("it holds no bundle with the listing %s", h.listing))
	}
	return files, nil
}

func (h *claim) wrong(err error) error {
	return &extractor.Error{Layer: h.layer.String(), Err: invalid(fmt.Errorf("the image's hint (%s) is wrong: %w: pack the bundle anew", HintLayer, err))}
}

// files are the directories and regular files of the layer alone.
func (p *projection) files() extractor.Files {
	files := extractor.Files{}
	for file, n := range p.nodes {
		n.addTo(files, file)
	}
	return files
}

// config reads the image's config.
func (u *unpacking) config(ctx context.Context, m *v1.Manifest) (*v1.ConfigFile, error) {
	var raw []byte
	err := u.blob(ctx, "config", m.Config, func(body io.Reader) (err error) {
		all := newTap(body, m.Config)
		raw, err = io.ReadAll(all)
		return cmp.Or(all.finish("config", m.Config), err)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the config %s: %w", m.Config.Digest, err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, invalid(fmt.Errorf("parsing the config %s: %w", m.Config.Digest, err))
	}
	return config, nil
}

// Hints returns what an image that holds files in the layer should say of it.
func Hints(layer v1.Hash, files extractor.Files) map[string]string {
	return map[string]string{HintLayer: layer.String(), HintListing: files.Listing().String()}
}
