// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
)

// Registry gets bundles from where an image may be pulled from. The zero value
// is usable: it logs in nowhere, knows no mirrors, and speaks HTTPS, but to this machine itself.
// It is an extractor.Fetcher, safe for use by many goroutines at once; it must
// not be copied once it is used.
type Registry struct {
	// Puller gets manifests and blobs: it knows the mirrors, the credentials, the
	// certificates and the proxies. nil is one that knows none.
	Puller *pull.Puller
	// Platform is what is taken out of an index, and must be there. The zero
	// value is linux on the architecture of this process or, where an index has
	// no such image, its first one for linux: manifests are the same for all.
	Platform v1.Platform
	// Limits bound what one image may cost.
	Limits Limits
	// Layers keeps what was found in layers, so that no layer is read twice; nil
	// keeps it in memory, as far as a few MiB go.
	Layers LayerStore

	layers layers
}

var _ extractor.Fetcher = (*Registry)(nil)

// anonymous is the Puller of a Registry that has none.
var anonymous pull.Puller

// Fetch implements extractor.Fetcher. An error is an extractor.ErrInvalid if
// the image is verified and wrong. Otherwise it holds a *pull.Error for each source that
// failed, with the step, the host, the HTTP status, the cause and what may help.
func (r *Registry) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	bundles, err := r.fetch(ctx, reference)
	if err != nil {
		return nil, locate(err, reference, "")
	}
	return bundles, nil
}

func (r *Registry) fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	limits := r.Limits.orDefaults()
	image, err := r.puller().Open(ctx, reference)
	if err != nil {
		return nil, err
	}
	raw, err := manifestOf(ctx, image, r.Platform, limits)
	if err != nil {
		return nil, err
	}
	pull.MeterOf(ctx).Size.Store(sizeOf(raw))
	u := &unpacking{limits: limits, blob: image.Blob, layers: r.layers.in(r.Layers)}
	return u.bundles(ctx, raw, extractor.Origin{Image: reference})
}

func (r *Registry) puller() *pull.Puller {
	if r.Puller == nil {
		return &anonymous
	}
	return r.Puller
}

// manifestOf returns the verified manifest of an image: its own, or that of the
// image for the platform if it is an index.
func manifestOf(ctx context.Context, image *pull.Image, platform v1.Platform, limits Limits) ([]byte, error) {
	raw, err := image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, limits.Manifest)
	if err != nil {
		return nil, err
	}
	index, err := parseIndex(raw)
	if err != nil || index == nil {
		return raw, invalid(err)
	}
	child, err := pick(index.Manifests, platform)
	if err == nil {
		err = checkBlob("manifest", child, limits.Manifest)
	}
	if err != nil {
		return nil, invalid(fmt.Errorf("reading the index: %w", err))
	}
	return image.Manifest(ctx, "manifest for "+child.Platform.String(), child, limits.Manifest)
}

// sizeOf is the size of an image as its manifest says, with the manifest.
func sizeOf(raw []byte) int64 {
	size := int64(len(raw))
	if m, err := parseManifest(raw); err == nil {
		for _, blob := range append(m.Layers, m.Config) {
			size += max(0, blob.Size)
		}
	}
	return size
}

// parseIndex parses an index, also called a manifest list. It returns nil if raw is none.
func parseIndex(raw []byte) (*v1.IndexManifest, error) {
	var index struct {
		v1.IndexManifest
		Layers json.RawMessage `json:"layers"`
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("parsing the manifest: %w", err)
	}
	switch {
	case index.Manifests == nil && !index.MediaType.IsIndex():
		return nil, nil
	case index.Layers != nil || index.Config != nil:
		return nil, errors.New("the manifest lists layers and manifests: it can be read in two ways")
	case index.SchemaVersion != 2:
		return nil, fmt.Errorf("the index has schema version %d, want 2", index.SchemaVersion)
	case index.MediaType != "" && !index.MediaType.IsIndex():
		return nil, fmt.Errorf("the manifest lists manifests and has the media type %q", index.MediaType)
	}
	return &index.IndexManifest, nil
}

// pick returns the image for a platform; the first, if there are several.
func pick(images []v1.Descriptor, platform v1.Platform) (v1.Descriptor, error) {
	anyLinux := platform.OS == "" && platform.Architecture == ""
	want := platform
	want.OS, want.Architecture = cmp.Or(platform.OS, "linux"), cmp.Or(platform.Architecture, runtime.GOARCH)
	var first *v1.Descriptor
	var have []string
	for i, image := range images {
		if image.Platform == nil || !isManifest(image.MediaType) {
			continue
		}
		if image.Platform.Satisfies(want) {
			return image, nil
		}
		if first == nil && image.Platform.OS == "linux" {
			first = &images[i]
		}
		have = append(have, image.Platform.String())
	}
	if anyLinux && first != nil {
		return *first, nil
	}
	return v1.Descriptor{}, fmt.Errorf("it has no image for %s, only for: %s", want.String(), strings.Join(have, ", "))
}

func isManifest(t types.MediaType) bool { return t == "" || t.IsImage() }

// Limit returns a Fetcher that lets at most n calls of next's Fetch run at
// once; the others wait until their turn or the end of their ctx. n below 1 is 1.
func Limit(next extractor.Fetcher, n int) extractor.Fetcher {
	return &limited{next: next, slots: make(chan struct{}, max(1, n))}
}

type limited struct {
	next  extractor.Fetcher
	slots chan struct{}
}

func (l *limited) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
		return l.next.Fetch(ctx, reference)
	case <-ctx.Done():
		return nil, &extractor.Error{Image: reference, Err: fmt.Errorf("waiting for other images: %w", context.Cause(ctx))}
	}
}
