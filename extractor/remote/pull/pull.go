// SPDX-License-Identifier: Apache-2.0

// Package pull gets manifests and blobs by digest, with patience: from each of
// an image's sources in their order, logged in where a registry asks for it, again
// when what went wrong may pass, from where it broke off when a blob is cut. What it hands on is
// what the digest says; a source that serves other bytes is passed over like one that serves none.
//
//	p := &pull.Puller{Access: func(context.Context) (pull.Access, error) { return access, nil }}
//	image, err := p.Open(ctx, "quay.io/example/provider@sha256:…")
//	manifest, err := image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, 4<<20)
//	err = image.Blob(ctx, "layer", layer, func(body io.Reader) error { … })
//
// How registries are reached can change at any time: each Open asks for it.
package pull

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor/remote/credential"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
)

// Access is how registries are reached. It is a value that nobody changes; to
// change how registries are reached, give Puller.Access another one.
type Access struct {
	// Mirrors say where images may be pulled from; nil is where their references say.
	Mirrors *mirror.Rules
	// Logins have the credentials; nil is none.
	Logins credential.Finder
	// Network reaches the registries; nil is one with the system's certificates
	// and no proxy.
	Network *network.Network
}

// Puller pulls images. The zero value is usable. It is safe for use by many
// goroutines at once and must not be copied once it is used. What it learns of registries it keeps
// in memory: how they want to be logged in to, tokens, and which of them do not answer.
type Puller struct {
	// Access returns how registries are to be reached now; nil is the zero Access.
	Access func(context.Context) (Access, error)
	// Wrap wraps what does the requests, to count them for example; nil does not.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Retry says how often a request is repeated that failed for a reason that may pass.
	Retry Retry
	// Answer is how long to wait for the first byte of an answer, the connection
	// included; default 30 seconds.
	Answer time.Duration
	// Stall is how long 64 KiB of a body, or its rest, may take; default 30 seconds.
	Stall time.Duration
	// PerHost is how many requests a registry gets at once; default 8.
	PerHost int
	// Passed is told of each source that was passed over; nil writes it to the log in ctx.
	Passed func(ctx context.Context, err *Error)

	mu       sync.Mutex
	hosts    map[string]*host
	sessions map[sessionKey]*session
	fallback *network.Network
}

// Image is an image of which manifests and blobs are wanted, and its sources.
type Image struct {
	puller    *Puller
	reference string
	digest    v1.Hash
	access    Access
	trip      http.RoundTripper
	sources   []mirror.Source

	mu     sync.Mutex
	passed map[string]bool
	layers map[v1.Hash]string // "2 of 5", as the manifest lists them
}

// Open finds the sources of an image. It asks none of them. The reference is by
// SHA-256 digest. An error is a *mirror.BlockedError if no source may be asked.
func (p *Puller) Open(ctx context.Context, reference string) (*Image, error) {
	access := Access{}
	if p.Access != nil {
		var err error
		if access, err = p.Access(ctx); err != nil {
			return nil, fmt.Errorf("finding out how to reach registries: %w", err)
		}
	}
	if access.Network == nil {
		access.Network = p.network()
	}
	sources, err := access.Mirrors.Sources(reference)
	if err != nil {
		return nil, err
	}
	digest, err := v1.NewHash(sources[0].Image.Identifier())
	if err != nil || digest.Algorithm != "sha256" {
		return nil, fmt.Errorf("parsing the reference: %q is not a sha256 digest", sources[0].Image.Identifier())
	}
	image := &Image{puller: p, reference: reference, digest: digest, access: access, trip: access.Network, sources: sources, passed: map[string]bool{}}
	if p.Wrap != nil {
		image.trip = p.Wrap(access.Network)
	}
	return image, nil
}

// network is the Network of an Access that has none.
func (p *Puller) network() *network.Network {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fallback == nil {
		p.fallback = network.New(network.Options{})
	}
	return p.fallback
}

// Close closes connections that nobody uses, of the Network that a Puller makes
// where an Access has none.
func (p *Puller) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fallback != nil {
		p.fallback.Close()
	}
}

// Digest is the digest of the image.
func (i *Image) Digest() v1.Hash { return i.digest }

// Sources are the image's sources, in their order.
func (i *Image) Sources() []mirror.Source { return slices.Clone(i.sources) }

// accepted are the manifests that we can read.
var accepted = strings.Join([]string{
	string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
	string(types.OCIImageIndex), string(types.DockerManifestList),
}, ", ")

// Manifest returns a manifest or an index, of at most limit bytes, verified. The
// size in d is -1 if it is not known. what is for errors: "manifest", "index". Errors are as those of Blob.
func (i *Image) Manifest(ctx context.Context, what string, d v1.Descriptor, limit int64) ([]byte, error) {
	var raw []byte
	err := i.get(ctx, wanted{what: what, kind: "manifests", descriptor: d, most: limit}, func(body io.Reader) error {
		var all bytes.Buffer
		_, err := all.ReadFrom(body)
		raw = all.Bytes()
		return err
	})
	if err != nil {
		return nil, err
	}
	i.number(raw)
	return raw, nil
}

// number takes note of the numbers of the layers in a manifest, for errors.
func (i *Image) number(raw []byte) {
	var manifest struct {
		Layers []struct{ Digest v1.Hash }
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return // whoever asked for it finds that out
	}
	numbers := map[v1.Hash]string{}
	for n, layer := range manifest.Layers {
		numbers[layer.Digest] = fmt.Sprintf(" %d of %d", n+1, len(manifest.Layers))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.layers = numbers
}

// numbered is what a blob is, with the number that it has among the layers if it is one.
func (i *Image) numbered(what string, blob v1.Hash) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return what + i.layers[blob]
}

// Blob reads a blob of the image. what is for errors, such as "layer"; they add which of
// how many it is, counted from the bottom, if it is one of the layers of a manifest that was got before.
//
// body is the blob from its start. It returns io.EOF only after the size and the digest of
// all of it were found to be those of d; until then its bytes may be anything. read is called
// again, from the start, with the bytes of another source if one failed or served other bytes. If
// read returns nil, that is the end, whether it has read everything or not. If it returns an error,
// the rest of body is read and verified: the error counts only if the bytes are the right ones.
//
// The error is that of read, of ctx, or, or joins, a *Error for each source.
func (i *Image) Blob(ctx context.Context, what string, d v1.Descriptor, read func(body io.Reader) error) error {
	return i.get(ctx, wanted{what: i.numbered(what, d.Digest), kind: "blobs", descriptor: d, most: d.Size}, read)
}

// wanted is what is asked for.
type wanted struct {
	what, kind string
	descriptor v1.Descriptor
	most       int64 // bytes
}

// get asks the sources one after another, and those that may do better the next
// time again and again.
func (i *Image) get(ctx context.Context, w wanted, read func(io.Reader) error) error {
	retry := i.puller.Retry.orDefaults()
	failures := map[mirror.Source]*Error{}
	left := i.sources
	for round := 1; ; round++ {
		var again []mirror.Source
		for _, s := range i.puller.healthyFirst(left) {
			err := i.from(ctx, s, w, read, round > 1)
			failed, ok := errors.AsType[*Error](err)
			if !ok {
				if err == nil {
					i.report(ctx, failures)
				}
				return err
			}
			failures[s] = failed
			if mayPass(ctx, err) {
				again = append(again, s)
			}
		}
		if len(again) == 0 || round >= retry.Attempts {
			return i.failed(ctx, failures)
		}
		if err := retry.wait(ctx, round, i.puller.soonest(again)); err != nil {
			return errors.Join(i.failed(ctx, failures), i.ended(w, err))
		}
		left = again
	}
}

// ended is the error of a wait that its context ended.
func (i *Image) ended(w wanted, err error) error {
	return fmt.Errorf("getting the %s: waiting for another attempt: %w", w.what, err)
}

// failed joins the errors of all sources, in their order.
func (i *Image) failed(ctx context.Context, failures map[mirror.Source]*Error) error {
	if ctx.Err() != nil && len(failures) == 0 {
		return context.Cause(ctx)
	}
	var errs []error
	for _, s := range i.sources {
		if err := failures[s]; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// report tells of sources that failed where another one did not, each once.
func (i *Image) report(ctx context.Context, failures map[mirror.Source]*Error) {
	for _, s := range i.sources {
		err := failures[s]
		i.mu.Lock()
		told := err == nil || i.passed[s.Image.Name()]
		i.passed[s.Image.Name()] = i.passed[s.Image.Name()] || err != nil
		i.mu.Unlock()
		switch {
		case told:
		case i.puller.Passed != nil:
			i.puller.Passed(ctx, err)
		default:
			logr.FromContextOrDiscard(ctx).Info("A source of an image failed; another one had what was wanted.",
				"image", i.reference, "source", s.Image.Context().Name(), "error", err.Error())
		}
	}
}

// from gets something from one source. The error is a *Error unless it is not the source's fault.
func (i *Image) from(ctx context.Context, s mirror.Source, w wanted, read func(io.Reader) error, again bool) error {
	a := &asking{Image: i, source: s, wanted: w, host: i.puller.host(s.Host())}
	if again && !a.host.mayRetry() {
		return a.fault(errBudget)
	}
	body, err := a.open(ctx)
	if err != nil {
		return a.judge(ctx, err)
	}
	defer body.close()
	err = read(body)
	if err != nil && body.err == nil {
		_, _ = io.Copy(io.Discard, body) // what it finds is in body.err
	}
	if body.err != nil && !errors.Is(body.err, io.EOF) {
		return a.judge(ctx, body.err)
	}
	return err
}

// judge makes a *Error of what went wrong at a source, unless it was ctx that ended.
func (a *asking) judge(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("getting the %s from %s: %w", a.wanted.what, a.source.Host(), context.Cause(ctx))
	}
	return a.fault(err)
}

func (a *asking) fault(err error) *Error {
	e := &Error{Image: a.reference, Step: a.wanted.what, Host: a.source.Host(), Err: err}
	if at, ok := errors.AsType[*stepError](err); ok {
		e.Step, e.Host, e.Err = at.step, cmp.Or(at.host, e.Host), at.err
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		e.Status = status.Code
	}
	e.Hint = hint(e.Err, a.login)
	return e
}
