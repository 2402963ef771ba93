// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
)

// Transport does the requests to a source, and to where its registry leads, for
// code that logs in by itself: with the certificates and proxies of the access, and
// to no address that a server may not lead to. Errors are those of network.Network.
func (a Access) Transport(source mirror.Source) http.RoundTripper {
	if a.Network == nil {
		a.Network = network.New(network.Options{})
	}
	return &trip{access: a, source: source}
}

type trip struct {
	access Access
	source mirror.Source

	mu   sync.Mutex
	from netip.Addr // where the registry was reached
}

// RoundTrip implements http.RoundTripper.
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	own := req.URL.Host == t.source.Host()
	ctx := network.NewContext(req.Context(), network.Route{
		Insecure: t.source.Insecure, Led: !own && !t.access.named(req.URL, []mirror.Source{t.source}), From: t.reachedAt(),
	})
	if own {
		ctx = t.access.tellReached(ctx, req.URL, t.reached)
	}
	req = req.Clone(ctx)
	if own && t.source.Namespace != "" && strings.HasPrefix(req.URL.Path, "/v2/") {
		query := req.URL.Query()
		query.Set("ns", t.source.Namespace)
		req.URL.RawQuery = query.Encode()
	}
	return t.access.Network.RoundTrip(req)
}

func (t *trip) reached(at netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.from = at
}

func (t *trip) reachedAt() netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from
}

// named says whether somebody named the host of a URL: in a reference, or in the rules for mirrors.
func (a Access) named(u *url.URL, sources []mirror.Source) bool {
	if slices.ContainsFunc(sources, func(s mirror.Source) bool { return s.Host() == u.Host || hostname(s.Host()) == u.Hostname() }) {
		return true
	}
	return slices.ContainsFunc(a.Mirrors.Hosts(), func(h string) bool { return h == u.Host || h == u.Hostname() })
}

func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

// tellReached has a request tell the address of the server, unless a proxy stands before it.
func (a Access) tellReached(ctx context.Context, u *url.URL, tell func(netip.Addr)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if at, err := netip.ParseAddrPort(got.Conn.RemoteAddr().String()); err == nil && !a.Network.Proxied(u) {
			tell(at.Addr())
		}
	}})
}
