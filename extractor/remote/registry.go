// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor"
)

// Registry gets bundles from the registry that a reference names. The zero
// value is usable: it logs in nowhere and speaks HTTPS, but to this machine itself.
// It is an extractor.Fetcher, safe for use by many goroutines at once. Each
// Fetch logs in anew, so that credentials can change at any time.
type Registry struct {
	// Transport does the requests; nil is one with the time limits of this
	// package. It need not retry: Registry does.
	Transport http.RoundTripper
	// Keychain has the credentials of each repository; nil has none.
	Keychain authn.Keychain
	// Platform is what is taken out of an index, and must be there. The zero
	// value is linux on the architecture of this process or, where an index has
	// no such image, its first one for linux: manifests are the same for all.
	Platform v1.Platform
	// PlainHTTP says whether a host, such as "mirror.example.com:5000", speaks
	// HTTP without TLS; nil is that none does. Hosts that are this machine
	// itself (localhost, 127.0.0.0/8, ::1) always do. No other host is ever asked without TLS,
	// be it because of a redirect.
	PlainHTTP func(host string) bool
	// Retry says how often a request is repeated that failed for a reason that may pass.
	Retry Retry
	// Stall is how long a body may come without a byte; default 30 seconds.
	Stall time.Duration
	// Limits bound what one image may cost.
	Limits Limits
	// SpoolDir is where layers of more than 8 MiB wait for their verification, in
	// files without a name; "" is os.TempDir.
	SpoolDir string
}

var _ extractor.Fetcher = (*Registry)(nil)

// Fetch implements extractor.Fetcher. An error is an extractor.ErrInvalid if
// the image is verified and wrong. Otherwise it holds a *StatusError if the
// registry refused, a *DigestError if it served other bytes than it was asked
// for, or the error of the network.
func (r *Registry) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	ref, hash, err := parse(reference)
	if err != nil {
		return nil, locate(err, reference, "")
	}
	bundles, err := r.fetch(ctx, ref.Context(), hash, reference)
	if err != nil {
		return nil, locate(err, reference, ref.RegistryStr())
	}
	return bundles, nil
}

// parse parses a reference, which must be by a SHA-256 digest.
func parse(reference string) (name.Digest, v1.Hash, error) {
	ref, err := name.NewDigest(reference, name.StrictValidation)
	if err != nil {
		return name.Digest{}, v1.Hash{}, fmt.Errorf("parsing the reference, which must be by digest: %w", err)
	}
	hash, err := v1.NewHash(ref.DigestStr())
	if err != nil || hash.Algorithm != "sha256" {
		return name.Digest{}, v1.Hash{}, fmt.Errorf("parsing the reference: %q is not a sha256 digest", ref.DigestStr())
	}
	return ref, hash, nil
}

func (r *Registry) fetch(ctx context.Context, repo name.Repository, hash v1.Hash, reference string) ([]extractor.Bundle, error) {
	limits := r.Limits.orDefaults()
	s, err := r.connect(ctx, repo)
	if err != nil {
		return nil, err
	}
	raw, err := s.image(ctx, hash, r.Platform, limits)
	if err != nil {
		return nil, err
	}
	u := &unpacking{limits: limits, spoolDir: r.SpoolDir, blob: s.blob}
	return u.bundles(ctx, raw, extractor.Origin{Image: reference})
}

// image returns the verified manifest of the image that hash names: its own, or
// that of the image for the platform if hash names an index.
func (s *session) image(ctx context.Context, hash v1.Hash, platform v1.Platform, limits Limits) ([]byte, error) {
	raw, err := s.manifest(ctx, v1.Descriptor{Digest: hash, Size: -1}, limits)
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
	return s.manifest(ctx, child, limits)
}

// manifest gets and verifies a manifest or an index.
func (s *session) manifest(ctx context.Context, d v1.Descriptor, limits Limits) (raw []byte, err error) {
	err = s.get(ctx, "manifests", d.Digest, func(body io.Reader) error {
		raw, err = io.ReadAll(io.LimitReader(body, limits.Manifest+1))
		if err != nil {
			return err
		}
		if err := within("bytes of a manifest", int64(len(raw)), limits.Manifest); err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		return verify("manifest", d, sum[:], int64(len(raw)))
	})
	if err != nil {
		return nil, fmt.Errorf("getting the manifest %s: %w", d.Digest, err)
	}
	return raw, nil
}

// blob implements blobs.
func (s *session) blob(ctx context.Context, what string, d v1.Descriptor, read func(io.Reader) error) error {
	if err := s.get(ctx, "blobs", d.Digest, read); err != nil {
		return fmt.Errorf("getting the %s: %w", what, err)
	}
	return nil
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
