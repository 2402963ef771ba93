// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// RoundTripper returns a transport for requests to a source and for its redirects, for clients with their own
// authentication: with the certificates and proxies of the settings, the restrictions of redirects, and the default
// timeouts of Client. Errors are those of transport.Transport.
func (a Settings) RoundTripper(source mirror.Source) http.RoundTripper {
	if a.Transport == nil {
		a.Transport = transport.New(transport.Options{})
	}
	return &sourceTransport{settings: a, source: source}
}

type sourceTransport struct {
	settings Settings
	source   mirror.Source

	mu      sync.Mutex
	address netip.Addr // at which the registry was reached
}

// RoundTrip implements http.RoundTripper.
func (t *sourceTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	own := req.URL.Host == t.source.Host()
	ctx := transport.NewContext(req.Context(), transport.Route{
		Insecure: t.source.Insecure, Redirected: !own && !t.settings.isConfigured(req.URL, []mirror.Source{t.source}), From: t.remoteAddress(),
	})
	if own {
		ctx = t.settings.withRemoteAddress(ctx, req.URL, t.setAddress)
	}
	req = req.Clone(ctx)
	if own && t.source.Namespace != "" && strings.HasPrefix(req.URL.Path, "/v2/") {
		query := req.URL.Query()
		query.Set("ns", t.source.Namespace)
		req.URL.RawQuery = query.Encode()
	}
	resp, err := roundTripWithTimeouts(t.settings.Transport, req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		parseChallenge(resp.Header).write(resp.Header) // clients parse less forms of a challenge than registries send
	}
	return resp, err
}

func (t *sourceTransport) setAddress(at netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.address = at
}

func (t *sourceTransport) remoteAddress() netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.address
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

// roundTripWithTimeouts sends a request that fails if the response or the bytes of its body do not arrive in time.
func roundTripWithTimeouts(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	allowed := Pace{}.orDefaults().allowances().patience
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(allowed.Silence, func() { cancel(errNoResponse) })
	resp, err := next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &cancelingBody{&pacedBody{ReadCloser: resp.Body, allowance: allowed, ctx: ctx, cancel: cancel, rest: resp.ContentLength, stalled: func() {}}}
	return resp, nil
}

// cancelingBody ends its request when it is closed.
type cancelingBody struct{ *pacedBody }

func (b *cancelingBody) Close() error {
	defer b.cancel(nil)
	return b.pacedBody.Close()
}
