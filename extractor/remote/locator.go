// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
)

// The locator of an image names the layer of its bundle in annotations of the manifest or, if there are
// none, in labels of the config. The image's digest covers both.
//
// A locator that does not match the layers is logged and ignored, because images that are built FROM a packed image or
// with recompressed layers inherit it. If a layer has several entries for a file of the bundle, the first files that
// match the listing are used, although unpackers show the last ones. The listing has the digest of their content, and the
// result must not depend on how far the layer is read.
const (
	// AnnotationLayer is the digest of the layer with the bundle. Lower layers
	// are not part of the bundle.
	AnnotationLayer = "capi-operator.openshift.io/manifests-layer"
	// AnnotationListing is the digest of metadata.json, which contains the digest of
	// the manifests. Files that match it need no further verification.
	AnnotationListing = "capi-operator.openshift.io/manifests-listing"
)

// LocatorAnnotations returns the locator of an image with files in layer. In the layout of profiles, which has no listing, the values
// are empty: they disable the locator of a base image.
func LocatorAnnotations(layer v1.Hash, files extractor.Files) map[string]string {
	if files.Listing() == "" {
		return map[string]string{AnnotationLayer: "", AnnotationListing: ""}
	}
	return map[string]string{AnnotationLayer: layer.String(), AnnotationListing: files.Listing().String()}
}

// locator is the parsed locator of an image.
type locator struct {
	layer   v1.Hash
	index   int // of the layer in the manifest
	listing digest.Digest
}

// locator returns the image's locator, or nil if it has none that matches its layers. It
// reads the config only if that costs less than reading the first layer.
func (r *imageReader) locator(ctx context.Context, m *v1.Manifest) (*locator, error) {
	values := m.Annotations
	if !hasLocator(values) {
		if top := m.Layers[len(m.Layers)-1]; top.Size < minLayerForConfig || r.isCached(ctx, top.Digest) {
			return nil, nil
		}
		config, err := r.readConfig(ctx, m)
		if err != nil {
			return nil, err
		}
		values = config.Config.Labels
	}
	if !hasLocator(values) {
		return nil, nil
	}
	l, err := parseLocator(values, m)
	if err != nil {
		ignoreLocator(ctx, err)
		return nil, nil
	}
	return l, nil
}

func hasLocator(values map[string]string) bool {
	return values[AnnotationLayer] != "" || values[AnnotationListing] != ""
}

// ignoreLocator logs why the locator is ignored.
func ignoreLocator(ctx context.Context, err error) {
	logr.FromContextOrDiscard(ctx).Info("Ignoring the bundle locator of an image; reading its layers", "reason", err.Error())
}

// minLayerForConfig is the size in bytes from which reading a layer costs more than a request for the
// config.
const minLayerForConfig = mib

func parseLocator(values map[string]string, m *v1.Manifest) (*locator, error) {
	layer, err := v1.NewHash(values[AnnotationLayer])
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", AnnotationLayer, err)
	}
	l := &locator{layer: layer, index: -1, listing: digest.Digest(values[AnnotationListing])}
	if err := l.listing.Validate(); err != nil || l.listing.Algorithm() != digest.SHA256 {
		return nil, fmt.Errorf("parsing %s: %q is not a sha256 digest", AnnotationListing, values[AnnotationListing])
	}
	for i, d := range m.Layers {
		if d.Digest == layer {
			l.index = i
		}
	}
	if l.index < 0 {
		return nil, fmt.Errorf("the image has no layer %s", layer)
	}
	return l, nil
}

// match returns the files of the bundle if they match the listing.
func (l *locator) match(files extractor.Files) (extractor.Files, bool) {
	complete, ok := files.Complete()
	return complete, ok && complete.Listing() == l.listing
}

// errLocator reports that the layers do not contain the bundle of the locator.
var errLocator = errors.New("the locator does not fit the layers")

// readLocated returns the files of the bundle of a locator. The error is errLocator if the layer
// does not contain the bundle, or if a layer above has entries for bundles.
func (r *imageReader) readLocated(ctx context.Context, m *v1.Manifest, l *locator) (extractor.Files, error) {
	above := overlay.New(r.limits.Contents)
	for i := len(m.Layers) - 1; i > l.index; i-- {
		if err := r.addLayer(ctx, above, m.Layers[i]); err != nil {
			return nil, err
		}
	}
	if !above.IsEmpty() {
		return nil, fmt.Errorf("%w: a layer above %s has entries for bundles", errLocator, l.layer)
	}
	d := m.Layers[l.index]
	if index := r.cache.load(ctx, d.Digest, r.limits.Contents); index != nil {
		if files, found := l.match(index.Files()); found {
			return files, nil
		}
	}
	var files extractor.Files
	var found bool
	_, err := r.scanLayer(ctx, d, func(index *overlay.Index) bool {
		if !found {
			files, found = l.match(index.Files())
		}
		return found
	})
	switch {
	case err != nil:
		return nil, &extractor.Error{Layer: l.layer.String(), Err: err}
	case !found:
		return nil, fmt.Errorf("%w: the layer %s holds no bundle with the listing %s", errLocator, l.layer, l.listing)
	}
	return files, nil
}

// readConfig reads the config of the image.
func (r *imageReader) readConfig(ctx context.Context, m *v1.Manifest) (*v1.ConfigFile, error) {
	var raw []byte
	err := r.readBlob(ctx, "config", m.Config, func(body io.Reader) (err error) {
		raw, err = io.ReadAll(body)
		return err
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
