// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// guard restricts the requests to other hosts than a source: to redirects and token servers, which servers name. The library asks
// for the proxy of each request, redirects included, before it sends the request.
type guard struct {
	source      *source
	credentials bool // for the source
	proxy       func(*url.URL) (*url.URL, error)
	metrics     *Metrics

	mu    sync.Mutex
	meter *Meter
	stop  context.CancelCauseFunc
	other bool // the last request was for another host, without a proxy
	own   addressKind
}

// RedirectError reports a request to another host that was not sent.
type RedirectError struct{ Host, Reason string }

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("rejected a redirect or a token server at %s: %s", e.Host, e.Reason)
}

// check returns the proxy for a request, or an error for a forbidden one.
func (g *guard) check(u *url.URL) (*url.URL, error) {
	own := registryHost(g.source.host())
	other := u.Host != own && u.Host != own+":443"
	ownName := (&url.URL{Host: own}).Hostname()
	g.metrics.request(g.source.host(), kindOf(u, other))
	proxy, err := g.proxy(u)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.meter.Requests.Add(1)
	g.other = other && proxy == nil
	switch {
	case u.Scheme != "https" && !g.source.insecure:
		return nil, &RedirectError{u.Host, "plain HTTP without TLS, and the registry is not configured as insecure"}
	case other && g.credentials && strings.EqualFold(u.Hostname(), ownName) && !isToken(u):
		// net/http sends credentials to each port of a host.
		return nil, &RedirectError{u.Host, "another port of the registry would get its credentials"}
	case err != nil:
		return nil, &ProxyError{}
	}
	if at, err := netip.ParseAddr(u.Hostname()); err == nil && other {
		return proxy, g.checkAddress(at, u.Host)
	}
	return proxy, nil
}

// isToken reports whether a request is for a token server: it gets the credentials, as the token protocol wants.
func isToken(u *url.URL) bool { return u.Query().Has("scope") || u.Query().Has("service") }

// trace returns a context whose requests have checked addresses; stop ends them.
func (g *guard) trace(ctx context.Context, stop context.CancelCauseFunc) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.meter, g.stop = MeterOf(ctx), stop
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectStart: func(_, address string) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.other {
			g.own = kindOfAddress(at.Addr())
		} else if err := g.checkAddress(at.Addr(), address); err != nil {
			g.stop(err)
		}
	}})
}

// checkAddress checks the address of another host: it must be in the internet, or in the same kind of network as the source. The
// caller holds the lock.
func (g *guard) checkAddress(at netip.Addr, host string) error {
	if kind := kindOfAddress(at); kind != public && (kind == reserved || kind != g.own) {
		return &RedirectError{host, fmt.Sprintf("the address is %s, and the host of the registry is not", kind)}
	}
	return nil
}

// registryHost returns the host of the API of a registry.
func registryHost(host string) string {
	if host == "docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

// addressKind is the kind of an address.
type addressKind string

const (
	public   addressKind = "public"
	private  addressKind = "private"
	loopback addressKind = "loopback"
	reserved addressKind = "link-local or reserved"
)

// sharedNetworks are private networks in addition to RFC 1918: carrier-grade NAT (RFC 6598; clouds use it
// internally) and benchmarks (RFC 2544). reservedNetworks are never a valid destination.
var (
	sharedNetworks   = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15")}
	reservedNetworks = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
	}
)

// embeddings are IPv6 networks whose addresses contain an IPv4 address, with its offset: NAT64 (RFC 6052), 6to4 (RFC
// 3056).
var embeddings = []struct {
	prefix netip.Prefix
	at     int
}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}

func kindOfAddress(a netip.Addr) addressKind {
	a = a.Unmap().WithZone("")
	for _, e := range embeddings {
		if e.prefix.Contains(a) {
			all := a.As16()
			a = netip.AddrFrom4([4]byte(all[e.at : e.at+4]))
		}
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), within(a, reservedNetworks):
		return reserved
	case a.IsLoopback():
		return loopback
	case a.IsPrivate(), within(a, sharedNetworks):
		return private
	}
	return public
}

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// PlainHTTP reports whether a registry on the local host has no TLS. Other registries without TLS must be configured as insecure.
func PlainHTTP(ctx context.Context, host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "443"
	}
	if at, err := netip.ParseAddr(name); name != "localhost" && (err != nil || !at.Unmap().IsLoopback()) {
		return false
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the connection is not used
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(name, port))
	if err == nil {
		conn.Close()
	}
	return errors.As(err, new(tls.RecordHeaderError)) || port == "443" && errors.Is(err, syscall.ECONNREFUSED)
}

// kindOf returns the kind of a request; a redirect has the kind redirect.
func kindOf(u *url.URL, other bool) string {
	path := strings.TrimSuffix(u.Path, "/")
	switch {
	case path == "/v2":
		return "ping"
	case isToken(u):
		return "token"
	case other:
		return "redirect"
	}
	for _, kind := range []string{"manifests", "blobs"} {
		if strings.Contains(path, "/"+kind+"/") {
			return kind
		}
	}
	return "other"
}

// Metrics counts requests to registries:
//
//	capi_installer_registry_requests_total{host,kind}
//	capi_installer_registry_failures_total{host,code}
//	capi_installer_registry_received_bytes_total{host,kind}
//
// host is the registry, with the port if any. kind is manifests, blobs, ping, token or redirect. code is the HTTP status of a read
// that failed, or "error" without a response. The nil Metrics counts nothing.
type Metrics struct{ requests, failures, bytes *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "capi_installer_registry_" + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	return &Metrics{
		requests: counter("requests_total", "Requests to registries and their token servers, by registry and kind.", "host", "kind"),
		failures: counter("failures_total", "Failed reads from registries, by registry and HTTP status (\"error\" if there was none).", "host", "code"),
		bytes:    counter("received_bytes_total", "Bytes of the manifests and blobs received from registries, by registry and kind.", "host", "kind"),
	}
}

func (m *Metrics) request(host, kind string) {
	if m != nil {
		m.requests.WithLabelValues(host, kind).Inc()
	}
}

func (m *Metrics) failure(host, code string) {
	if m != nil {
		m.failures.WithLabelValues(host, code).Inc()
	}
}

func (m *Metrics) received(host, kind string, n int) {
	if m != nil {
		m.bytes.WithLabelValues(host, kind).Add(float64(n))
	}
}

// Meter counts requests and received bytes, for example for a progress bar. It is safe for concurrent use.
type Meter struct {
	// Requests is the number of responses, including those for tokens.
	Requests atomic.Int64
	// Received is the number of bytes read from bodies.
	Received atomic.Int64
	// Size is the size of the image in bytes, according to its manifest; 0 until known.
	Size atomic.Int64
}

type meterKey struct{}

// WithMeter returns a context whose requests m counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf returns the meter of a context, or an unused one.
func MeterOf(ctx context.Context) *Meter {
	if m, ok := ctx.Value(meterKey{}).(*Meter); ok {
		return m
	}
	return &Meter{}
}
