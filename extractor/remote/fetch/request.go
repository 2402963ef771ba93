// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// request is a request for one resource to one source, with all attempts of one round.
type request struct {
	image       *Image
	source      mirror.Source
	resource    resource
	host        *host
	allowance   *allowance
	writes      bool                 // the request writes to the repository
	mounts      string               // source repository of a blob mount
	credentials keychain.Credentials // of the last request
}

const maxRedirects = 5

// url is the URL of the resource.
func (r *request) url() *url.URL {
	if r.resource.at != nil {
		return r.resource.at
	}
	u := &url.URL{Scheme: "https", Host: r.source.Host(), Path: "/v2/" + r.source.Image.Context().RepositoryStr() + "/" + r.resource.kind + "/" + r.resource.identifier()}
	if r.source.Namespace != "" {
		u.RawQuery = url.Values{"ns": {r.source.Namespace}}.Encode()
	}
	return u
}

// get sends one request and follows redirects.
func (r *request) get(ctx context.Context, from int64, auth string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url().String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if r.resource.kind == manifests {
		req.Header.Set("Accept", acceptedTypes)
	}
	if size := r.resource.descriptor.Size; from > 0 && size > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, size-1)) // some registries do not support open ranges
	} else if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	return r.follow(req, r.route())
}

// route is the route of the first request.
func (r *request) route() transport.Route {
	route := transport.Route{Insecure: r.source.Insecure}
	if r.resource.at != nil {
		route.Redirected, route.From = !r.image.settings.isConfigured(r.resource.at, r.image.sources), r.image.client.addressOf(r.image.sources)
	}
	return route
}

// follow sends a request and follows redirects. Another host gets no credentials,
// and the transport restricts its address.
func (r *request) follow(req *http.Request, route transport.Route) (*response, error) {
	for n := 0; ; n++ {
		resp, err := r.roundTrip(req, route)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if resp.StatusCode < 300 || resp.StatusCode > 399 || location == "" {
			return resp, nil
		}
		resp.close()
		target, err := resp.Request.URL.Parse(location)
		switch {
		case err != nil || target.Host == "":
			return nil, errors.New("invalid redirect: the Location header is not a URL")
		case n >= maxRedirects:
			return nil, errRedirects
		}
		next := req.Clone(req.Context())
		next.URL, next.Host, next.Response = target, "", resp.Response
		if target.Host != req.URL.Host {
			next.Header.Del("Authorization")
			next.Header.Del("Cookie")
		}
		route = r.redirectRoute(target, resp)
		req = next
	}
}

// redirectRoute is the route of a redirect.
func (r *request) redirectRoute(to *url.URL, by *response) transport.Route {
	return transport.Route{Insecure: r.source.Insecure, Redirected: !r.image.settings.isConfigured(to, r.image.sources), From: by.address}
}

// response is a response whose body counts its bytes. close must be called.
type response struct {
	*http.Response
	// address is the address of the server, if known. redirected means that another server named it.
	address    netip.Addr
	redirected bool

	start   *startReader
	cancel  context.CancelCauseFunc
	once    sync.Once
	release func()
}

// close closes the body and releases the slot of the host.
func (r *response) close() {
	r.once.Do(func() {
		r.Body.Close()
		r.cancel(nil)
		r.release()
	})
}

// roundTrip sends one request when the host has a free slot, and waits for the response with a timeout.
func (r *request) roundTrip(req *http.Request, route transport.Route) (*response, error) {
	h := r.image.client.host(req.URL.Host)
	started := time.Now()
	if err := h.acquire(req.Context()); err != nil {
		if err == errHostStalled { //nolint:errorlint // this very error
			r.allowance.lose(time.Since(started))
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(transport.NewContext(req.Context(), route))
	out := &response{cancel: cancel, release: h.release, redirected: req.Response != nil}
	ctx = r.image.settings.withRemoteAddress(ctx, req.URL, func(at netip.Addr) { out.address = at })
	resp, err := r.await(ctx, cancel, req) //nolint:bodyclose // response.close closes it
	if err != nil {
		cancel(nil)
		h.release()
		if req.Context().Err() == nil {
			r.recordFailure(h, err)
		}
		return nil, err
	}
	h.recordResponse(out.address)
	MeterOf(ctx).Requests.Add(1)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		h.pauseFor(min(retryAfter(resp, time.Now()), r.image.client.Retry.orDefaults().MaxBackoff))
	}
	resp.Request = withScheme(req, resp.Request)
	out.Response = resp
	paced := &pacedBody{
		ReadCloser: resp.Body, allowance: r.allowance, ctx: ctx, cancel: cancel, rest: resp.ContentLength, stalled: func() { r.recordStall(h) },
	}
	out.start = &startReader{ReadCloser: &countedBody{paced, MeterOf(ctx)}}
	resp.Body = out.start
	return out, nil
}

// await sends a request and waits for the header of the response.
func (r *request) await(ctx context.Context, cancel context.CancelCauseFunc, req *http.Request) (*http.Response, error) {
	limit, late := r.allowance.timeout(errNoResponse)
	if late == errSlow { //nolint:errorlint // this very error
		late = errNoResponse
	}
	started := time.Now()
	timer := time.AfterFunc(limit, func() { cancel(late) })
	resp, err := r.image.transport.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	took := time.Since(started)
	if err == nil {
		r.allowance.wait(max(0, took-r.allowance.grace()), 0)
		return resp, nil
	}
	r.allowance.lose(took)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, err
}

// recordFailure records that a host, of the source or of a redirect, did not respond.
func (r *request) recordFailure(h *host, err error) {
	if errors.Is(err, errNoResponse) {
		r.recordStall(h)
		return
	}
	h.recordFailure()
}

// recordStall records that a host, of the source, a redirect or a token server, stalled.
func (r *request) recordStall(h *host) {
	h.recordStall()
	if h != r.host {
		r.host.recordStall()
	}
}

// withScheme returns req with the scheme of the request that was sent: plain HTTP to hosts without TLS.
func withScheme(req, sent *http.Request) *http.Request {
	if sent == nil || sent.URL.Scheme == req.URL.Scheme {
		return req
	}
	u := *req.URL
	u.Scheme = sent.URL.Scheme
	with := req.Clone(req.Context())
	with.URL, with.Response = &u, req.Response
	return with
}

// countedBody counts the bytes of a body.
type countedBody struct {
	io.ReadCloser
	meter *Meter
}

func (m *countedBody) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.meter.Received.Add(int64(n))
	return n, err
}

// checkResponse rejects responses without success status, and encoded bodies.
func (r *request) checkResponse(resp *response, from int64) error {
	good := resp.StatusCode == http.StatusOK || from > 0 && resp.StatusCode == http.StatusPartialContent
	if !good {
		err := statusError(resp.Response)
		resp.close()
		return err
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		resp.close()
		return errEncoding
	}
	return nil
}

var errEncoding = errors.New("unexpected Content-Encoding in the response")
