// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// Target returns a transport for requests to the registry of an image, never to a mirror, for libraries that write images:
// with the credentials, challenges, tokens, certificates and proxies of reads, and their restrictions of redirects. A request
// fails if it makes no progress for four times Pace.Silence. The error is a *mirror.BlockedError if the registry is
// blocked. Errors of requests that got no token are of type *Error; the transport returns other responses as they are.
func (c *Client) Target(ctx context.Context, image name.Reference) (http.RoundTripper, error) {
	target, err := c.image(ctx, image.Name(), func(rules *mirror.Rules) ([]mirror.Source, error) {
		source, err := rules.Target(image)
		return []mirror.Source{source}, err
	})
	if err != nil {
		return nil, err
	}
	return &targetTransport{target}, nil
}

// targetTransport sends requests to the only source of an image.
type targetTransport struct{ image *Image }

// RoundTrip implements http.RoundTripper.
func (t *targetTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	source := t.image.sources[0]
	r := &request{
		image: t.image, source: source, resource: resource{name: "response"}, host: t.image.client.host(source.Host()),
		allowance: t.image.client.Pace.orDefaults().allowances().patience, writes: true, mounts: req.URL.Query().Get("from"),
	}
	if req.URL.Host != source.Host() {
		return r.exchange(req, req.Body, "")
	}
	return r.exchangeAuthorized(req)
}

// exchangeAuthorized sends a request with credentials if the registry requires them.
func (r *request) exchangeAuthorized(req *http.Request) (*http.Response, error) {
	body := req.Body
	header, learn, err := r.authorize(req.Context(), "")
	if err != nil && body != nil {
		body.Close()
	}
	for attempt := 1; err == nil; attempt++ {
		resp, failed := r.exchange(req, body, header)
		if failed != nil {
			learn(nil)
			return nil, failed
		}
		learn(&response{Response: resp})
		if resp.StatusCode != http.StatusUnauthorized || attempt > 2 || body != nil && req.GetBody == nil {
			return resp, nil
		}
		var next string
		next, learn, err = r.authorize(req.Context(), header)
		if err == nil && next == header {
			return resp, nil
		}
		resp.Body.Close()
		header = next
		if err == nil && req.GetBody != nil {
			body, err = req.GetBody()
		}
	}
	return nil, r.sourceError(err)
}

// exchange sends one request, closes its body, and does not follow redirects. It fails after a time without progress.
func (r *request) exchange(req *http.Request, body io.ReadCloser, auth string) (*http.Response, error) {
	own := req.URL.Host == r.source.Host()
	ctx, cancel := context.WithCancelCause(transport.NewContext(req.Context(), transport.Route{
		Insecure: r.source.Insecure, Redirected: !own && !r.image.settings.isConfigured(req.URL, r.image.sources), From: r.host.address(),
	}))
	if own {
		ctx = r.image.settings.withRemoteAddress(ctx, req.URL, r.host.setAddress)
	}
	watched := watch(4*r.allowance.Silence, func() { cancel(errNoResponse) })
	req = req.Clone(ctx)
	if req.Body = body; body != nil {
		req.Body = &watchedBody{body, watched}
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := r.image.transport.RoundTrip(req)
	watched.stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	paced := &pacedBody{ReadCloser: resp.Body, allowance: r.allowance, ctx: ctx, cancel: cancel, rest: resp.ContentLength, stalled: func() {}}
	resp.Body = &cancelingBody{paced}
	return resp, nil
}

// watchdog calls a function after a time without progress.
type watchdog struct {
	silence time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func watch(silence time.Duration, late func()) *watchdog {
	return &watchdog{silence: silence, timer: time.AfterFunc(silence, late)}
}

func (w *watchdog) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer.Reset(w.silence)
	}
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// watchedBody is the body of a request. A transport can read it after it returned the response.
type watchedBody struct {
	io.ReadCloser
	watched *watchdog
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watched.progress()
	return n, err
}

// cancelingBody ends its request when it is closed.
type cancelingBody struct{ *pacedBody }

func (b *cancelingBody) Close() error {
	defer b.cancel(nil)
	return b.pacedBody.Close()
}

// isConfigured reports whether a user configured the host of a URL: in a reference, or in the rules for mirrors.
func (a Settings) isConfigured(u *url.URL, sources []mirror.Source) bool {
	if slices.ContainsFunc(sources, func(s mirror.Source) bool { return s.Host() == u.Host || hostname(s.Host()) == u.Hostname() }) {
		return true
	}
	return slices.ContainsFunc(a.Mirrors.Hosts(), func(h string) bool { return h == u.Host || h == u.Hostname() })
}

func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

// withRemoteAddress returns a context whose request reports the address of the server, unless it is sent through a proxy.
func (a Settings) withRemoteAddress(ctx context.Context, u *url.URL, tell func(netip.Addr)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if at, err := netip.ParseAddrPort(got.Conn.RemoteAddr().String()); err == nil && !a.Transport.Proxied(u) {
			tell(at.Addr())
		}
	}})
}
