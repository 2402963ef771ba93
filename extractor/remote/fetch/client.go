// SPDX-License-Identifier: Apache-2.0

// Package fetch reads manifests and blobs by digest from the sources of an image (its mirrors and its registry) in order, with
// credentials, retries with backoff, and resumption of interrupted downloads. It returns only verified bytes; a source that
// serves other bytes counts as failed. Client.Pace limits the time that silent and slow sources cost; they are then tried
// after all others.
//
//	client := &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings, nil }}
//	image, err := client.Open(ctx, "quay.io/example/provider@sha256:…")
//	manifest, err := image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, 4<<20)
//	err = image.Blob(ctx, "layer", layer, 1<<30, func(body io.Reader) error { … })
//
// The settings can change at any time: each Open reads them.
package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// Settings is the registry configuration. It is immutable; to change the
// configuration, Client.Settings returns another value.
type Settings struct {
	// Mirrors are the rules for mirrors and blocked registries; nil means none.
	Mirrors *mirror.Rules
	// Keychain resolves credentials; nil means anonymous.
	Keychain keychain.Keychain
	// Transport sends the requests; nil means the system's certificates and no
	// proxy.
	Transport *transport.Transport
	// Places names where all of it is configured, for errors.
	Places Places
}

// Client reads images from registries. The zero value is usable. It is safe for concurrent use
// and must not be copied after first use. It caches the challenges, tokens and health
// of registries in memory.
type Client struct {
	// Settings returns the current settings; nil means the zero Settings.
	Settings func(context.Context) (Settings, error)
	// WrapTransport, if not nil, wraps the transport of requests, for example to count them.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// Retry is the policy for retryable errors.
	Retry Retry
	// Pace limits the time that silent and slow sources cost.
	Pace Pace
	// RequestsPerHost is the number of concurrent requests to a registry; default 8.
	RequestsPerHost int
	// OnSourceFailure is called for each failed source if another source succeeded; nil means to log the error to the
	// logger of ctx.
	OnSourceFailure func(ctx context.Context, err *Error)

	mu               sync.Mutex
	hosts            map[string]*host
	sessions         map[sessionKey]*session
	defaultTransport *transport.Transport
}

// Image is an image and its sources.
type Image struct {
	client    *Client
	reference string
	digest    v1.Hash
	settings  Settings
	transport http.RoundTripper
	sources   []mirror.Source
	allowed   allowances
	last      bool // no other source is left

	layers layerNumbers

	mu       sync.Mutex
	reported map[string]bool
}

// Open determines the sources of an image. It sends no request. The reference is by
// SHA-256 digest. The error is a *mirror.BlockedError if all sources are blocked.
func (c *Client) Open(ctx context.Context, reference string) (*Image, error) {
	image, err := c.image(ctx, reference, func(rules *mirror.Rules) ([]mirror.Source, error) { return rules.Sources(reference) })
	if err != nil {
		return nil, err
	}
	image.digest, err = v1.NewHash(image.sources[0].Image.Identifier())
	if err != nil || image.digest.Algorithm != "sha256" {
		return nil, fmt.Errorf("parsing the reference: %q is not a sha256 digest: container runtimes verify images with no other; use the sha256 digest of the image", image.sources[0].Image.Identifier())
	}
	return image, nil
}

// Resolve returns the digest of the manifest that a tag has now, of at most limit bytes: from the first of its sources that
// has the tag. Errors are the errors of Open and Image.Blob.
func (c *Client) Resolve(ctx context.Context, tag name.Tag, limit int64) (v1.Hash, error) {
	image, err := c.image(ctx, tag.Name(), func(rules *mirror.Rules) ([]mirror.Source, error) { return rules.TagSources(tag) })
	if err != nil {
		return v1.Hash{}, err
	}
	raw, _, err := image.ManifestOfTag(ctx, "manifest", tag.TagStr(), limit)
	if err != nil {
		return v1.Hash{}, err
	}
	if isSigned(raw) {
		if raw = unsigned(raw); raw == nil {
			return v1.Hash{}, fmt.Errorf("computing the digest of the manifest of %s: it has invalid signatures", tag)
		}
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	return digest, err
}

// image returns an image with its sources by the current settings.
func (c *Client) image(ctx context.Context, reference string, find func(*mirror.Rules) ([]mirror.Source, error)) (*Image, error) {
	settings := Settings{}
	if c.Settings != nil {
		var err error
		if settings, err = c.Settings(ctx); err != nil {
			return nil, fmt.Errorf("reading the registry settings: %w", err)
		}
	}
	if settings.Transport == nil {
		settings.Transport = c.transport()
	}
	sources, err := find(settings.Mirrors)
	if _, blocked := errors.AsType[*mirror.BlockedError](err); blocked {
		return nil, fmt.Errorf("%w in %s", err, settings.Places.unblocked())
	}
	if err != nil {
		return nil, err
	}
	image := &Image{
		client: c, reference: reference, settings: settings, transport: settings.Transport, sources: sources,
		allowed: c.Pace.orDefaults().allowances(), last: true, reported: map[string]bool{},
	}
	if c.WrapTransport != nil {
		image.transport = c.WrapTransport(settings.Transport)
	}
	return image, nil
}

// transport returns the default Transport, for Settings without Transport.
func (c *Client) transport() *transport.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.defaultTransport == nil {
		c.defaultTransport = transport.New(transport.Options{})
	}
	return c.defaultTransport
}

// Close closes the idle connections of the default transport, the one of Settings
// without Transport.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.defaultTransport != nil {
		c.defaultTransport.Close()
	}
}

// Digest returns the digest of the image.
func (i *Image) Digest() v1.Hash { return i.digest }

// Sources returns the image's sources in order.
func (i *Image) Sources() []mirror.Source { return slices.Clone(i.sources) }

// HealthySources returns the image's sources in the order of attempts, with recently failed ones last.
func (i *Image) HealthySources() []mirror.Source { return i.client.healthyFirst(i.sources) }

// acceptedTypes are the supported media types of manifests.
var acceptedTypes = strings.Join([]string{
	string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
	string(types.OCIImageIndex), string(types.DockerManifestList),
	string(types.DockerManifestSchema1Signed), string(types.DockerManifestSchema1),
}, ", ")

// Manifest returns a manifest or an index of at most limit bytes, verified. The size in d is -1 if unknown. what is the
// name in errors: "manifest" or "index". Of a signed manifest of schema 1, it returns the payload: the digest covers
// only the payload. Errors are the errors of Blob.
func (i *Image) Manifest(ctx context.Context, what string, d v1.Descriptor, limit int64) ([]byte, error) {
	var raw []byte
	w := resource{name: what, kind: manifests, descriptor: d, limit: limit, content: &raw}
	err := i.fetch(ctx, i.sources, w, func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
	if err != nil {
		return nil, err
	}
	i.layers.read(raw)
	return raw, nil
}

// From returns the image with only one of its sources. last means that it is the last one that the caller tries; only the
// last one gets the whole Pace.Patience.
func (i *Image) From(source mirror.Source, last bool) *Image {
	return &Image{
		client: i.client, reference: i.reference, digest: i.digest, settings: i.settings, transport: i.transport, sources: []mirror.Source{source},
		allowed: i.allowed, last: last, reported: map[string]bool{},
	}
}

// ManifestOfTag returns the manifest of a tag in the image's repository, of at most limit bytes, and its media type as the
// registry states it. They are untrusted, because there is no digest to verify them. Errors are the errors of Blob.
func (i *Image) ManifestOfTag(ctx context.Context, what, tag string, limit int64) ([]byte, types.MediaType, error) {
	return i.untrusted(ctx, resource{name: what, kind: manifests, tag: tag, descriptor: v1.Descriptor{Size: -1}, limit: limit})
}

// Referrers returns the index of the manifests that refer to a manifest of the repository, of at most limit bytes: from the
// registry's API or, if it has none, from the tag that the OCI distribution specification defines for this case. It is
// untrusted. Errors are the errors of Blob.
func (i *Image) Referrers(ctx context.Context, manifest string, limit int64) ([]byte, error) {
	raw, _, err := i.untrusted(ctx, resource{name: "referrers", kind: "referrers", tag: manifest, descriptor: v1.Descriptor{Size: -1}, limit: limit})
	if failed, ok := errors.AsType[*Error](err); ok && failed.Status != 0 {
		raw, _, err = i.ManifestOfTag(ctx, "referrers", strings.ReplaceAll(manifest, ":", "-"), limit)
	}
	return raw, err
}

// untrusted returns a resource without a known digest, and its media type.
func (i *Image) untrusted(ctx context.Context, w resource) (raw []byte, mediaType types.MediaType, err error) {
	w.stated = &mediaType
	err = i.fetch(ctx, i.sources, w, func(body io.Reader) (err error) {
		raw, err = io.ReadAll(body)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return raw, mediaType, nil
}

// Blob reads a blob of the image. what is the name in errors, such as "layer". For a layer of a manifest that was read
// before, errors add its position, counted from the bottom. The size in d is -1 if unknown; then it is at most limit. If no
// source of the image has the blob, it is read from the URLs in d, if they are http or https, without credentials. The
// caller clears the URLs of an unverified manifest.
//
// body is the blob from its start. It returns io.EOF only after its size and digest were verified; until then its bytes
// are untrusted. If a source failed or served other bytes, read is called again, from the start, with the bytes of
// another source. If read returns nil, Blob returns even if read did not read the body to its end. If read returns an
// error, the rest of body is read and verified: the error counts only for verified bytes.
//
// The error comes from read or ctx, or is or joins a *Error for each source.
func (i *Image) Blob(ctx context.Context, what string, d v1.Descriptor, limit int64, read func(body io.Reader) error) error {
	w := resource{name: what + i.layers.of(d.Digest), kind: blobs, descriptor: d, limit: limit}
	err := i.fetch(ctx, i.sources, w, read)
	if errors.As(err, new(*Error)) && ctx.Err() == nil {
		return i.external(ctx, w, err, read)
	}
	return err
}

// resource is a manifest or a blob to read.
type resource struct {
	name, kind string
	tag        string   // unknown for a manifest without a known digest
	at         *url.URL // of a blob outside of registries; nil for others
	more       bool     // the blob has further URLs
	descriptor v1.Descriptor
	limit      int64            // bytes
	stated     *types.MediaType // receives the Content-Type of the response; may be nil
	content    *[]byte          // receives the verified content of a manifest; nil for others
}

// The kinds of resources, as in their URLs.
const manifests, blobs = "manifests", "blobs"

// identifier is the last element of the path of the resource.
func (r resource) identifier() string {
	if r.tag != "" {
		return r.tag
	}
	return r.descriptor.Digest.String()
}

// fetch reads a resource from sources.
func (i *Image) fetch(ctx context.Context, sources []mirror.Source, w resource, read func(io.Reader) error) error {
	return reading{i, sources, w, read, map[mirror.Source]*Error{}}.all(ctx)
}

// allowance returns the allowance for a source; more means that another one is left.
func (i *Image) allowance(more bool) *allowance {
	if more || !i.last {
		return i.allowed.detour
	}
	return i.allowed.patience
}

// Waited records a wait for other images. It ended because they were read or failed. It counts as lost time if no source of
// the image is healthy now: the others waited for the same sources.
func (i *Image) Waited(d time.Duration) {
	if !i.client.anyHealthy(i.sources) {
		i.allowed.detour.lose(d)
		i.allowed.patience.lose(d)
	}
}

// classify returns the *Error of a source, unless ctx has ended.
func (r *request) classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("getting the %s from %s: %w", r.resource.name, r.source.Host(), context.Cause(ctx))
	}
	return r.sourceError(err)
}

func (r *request) sourceError(err error) *Error {
	e := &Error{Image: r.image.reference, Step: r.resource.name, Host: r.source.Host(), Err: err}
	if at, ok := errors.AsType[*stepError](err); ok {
		e.Step, e.Host, e.Err = at.step, cmp.Or(at.host, e.Host), at.err
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		e.Status = status.Code
	}
	e.Advice = r.image.settings.Places.adviceFor(e.Err, r.credentials)
	return e
}
