// SPDX-License-Identifier: Apache-2.0

// Package transport sends requests to registries: with the CA certificates of each registry,
// through proxies, and with address restrictions for redirects.
//
//	cas, err := transport.ParseCAs(bundle, configMap.Data)
//	n := transport.New(transport.Options{CAs: cas, Proxy: transport.Proxy{HTTPSProxy: "http://proxy.example.com:3128"}})
//	defer n.Close()
//	resp, err := n.RoundTrip(req.WithContext(transport.NewContext(ctx, transport.Route{Redirected: true, From: addr})))
package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Proxy holds the proxies of requests, in the syntax of HTTP_PROXY, HTTPS_PROXY and NO_PROXY: a list of hosts, domains,
// addresses, and networks such as 10.0.0.0/8, with or without a port. Requests to the local host never use a proxy.
type Proxy struct {
	HTTPProxy, HTTPSProxy, NoProxy string
}

// ProxyFromEnvironment returns the proxies of the environment; HTTPS_PROXY takes precedence over https_proxy.
func ProxyFromEnvironment() Proxy {
	env := httpproxy.FromEnvironment()
	return Proxy{env.HTTPProxy, env.HTTPSProxy, env.NoProxy}
}

// ProxyError reports an invalid proxy URL. It does not show the URL: it can contain a password.
type ProxyError struct {
	// Name is HTTP_PROXY or HTTPS_PROXY.
	Name string
}

// Error implements error.
func (e *ProxyError) Error() string {
	return "invalid " + e.Name + ": want a URL such as http://proxy.example.com:3128"
}

// Check returns a *ProxyError for each invalid URL.
func (p Proxy) Check() error {
	var errs []error
	for _, proxy := range []struct{ name, value string }{{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}} {
		if _, err := proxyHost(proxy.value); err != nil {
			errs = append(errs, &ProxyError{proxy.name})
		}
	}
	return errors.Join(errs...)
}

// proxyHost returns the host and the port of a proxy; empty without proxy.
func proxyHost(proxy string) (string, error) {
	if proxy == "" {
		return "", nil
	}
	if !strings.Contains(proxy, "://") {
		proxy = "http://" + proxy
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("invalid proxy URL")
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme])
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Options are the options of a Transport. The zero value trusts the system's certificates and uses no proxy.
type Options struct {
	CAs   *CAs
	Proxy Proxy
	// Dial connects to an address after control accepted it, like a net.Dialer with ControlContext; nil means a
	// net.Dialer.
	Dial func(ctx context.Context, control Control, network, address string) (net.Conn, error)
}

// Control checks an address with its port before a connection is opened.
type Control func(ctx context.Context, network, address string, _ syscall.RawConn) error

// Transport is an http.RoundTripper, safe for concurrent use. The Route in the context of a request
// restricts its destination.
type Transport struct {
	options Options
	proxy   func(*url.URL) (*url.URL, error)
	proxies map[string]bool

	mu         sync.Mutex
	transports map[transportKey]*http.Transport
	plainHTTP  map[string]bool // known to serve plain HTTP
}

// transportKey identifies the transport of a host.
type transportKey struct {
	host     string
	insecure bool
}

// New returns a Transport.
func New(options Options) *Transport {
	if options.Dial == nil {
		options.Dial = dial
	}
	proxy := httpproxy.Config{HTTPProxy: options.Proxy.HTTPProxy, HTTPSProxy: options.Proxy.HTTPSProxy, NoProxy: options.Proxy.NoProxy}
	n := &Transport{options: options, proxy: proxy.ProxyFunc(), proxies: map[string]bool{}, transports: map[transportKey]*http.Transport{}, plainHTTP: map[string]bool{}}
	for _, value := range []string{options.Proxy.HTTPProxy, options.Proxy.HTTPSProxy} {
		if host, err := proxyHost(value); err == nil && host != "" {
			n.proxies[host] = true
		}
	}
	return n
}

// Close closes idle connections.
func (n *Transport) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, transport := range n.transports {
		transport.CloseIdleConnections()
	}
}

// Route is the origin of a request. It restricts the destination.
type Route struct {
	// Insecure allows plain HTTP and unverified certificates.
	Insecure bool
	// Redirected reports whether a server or an image named the host, by a redirect, as a token server or in a URL. Such a host can be in the
	// internet; in a private network or on the local host only if the server is there too; and never at a link-local
	// address.
	Redirected bool
	// From is the address of that server; the zero value if unknown.
	From netip.Addr
}

type routeKey struct{}

// NewContext returns a context for a request.
func NewContext(ctx context.Context, route Route) context.Context {
	return context.WithValue(ctx, routeKey{}, route)
}

func routeOf(ctx context.Context) Route {
	route, _ := ctx.Value(routeKey{}).(Route)
	return route
}

// PlainHTTPError reports a host that requires plain HTTP without being configured as insecure.
type PlainHTTPError struct{ Host string }

// Error implements error.
func (e *PlainHTTPError) Error() string {
	return fmt.Sprintf("rejected plain HTTP without TLS to %s: the host is not configured as insecure", e.Host)
}

// RoundTrip implements http.RoundTripper. For an insecure host it tries
// TLS first. The error is a *PlainHTTPError or an *AddressError if the request is rejected.
func (n *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	route := routeOf(req.Context())
	if err := checkLiteral(req.URL.Hostname(), route); err != nil {
		return nil, err
	}
	host, mayBePlain := req.URL.Host, route.Insecure || isLoopback(req.URL.Hostname())
	if !mayBePlain {
		if req.URL.Scheme != "https" {
			return nil, &PlainHTTPError{Host: host}
		}
		return n.send(req, "https", route)
	}
	if req.URL.Scheme == "http" || n.isPlainHTTP(host) {
		return n.send(req, "http", route)
	}
	resp, err := n.send(req, "https", route)
	if err != nil && isPlainHTTPError(err, req.URL) {
		n.setPlainHTTP(host)
		return n.send(req, "http", route)
	}
	return resp, err
}

// isPlainHTTPError reports whether an error means that the server does not use TLS, as opposed to an invalid certificate.
func isPlainHTTPError(err error, u *url.URL) bool {
	_, other := errors.AsType[tls.RecordHeaderError](err)
	return other || u.Port() == "" && errors.Is(err, syscall.ECONNREFUSED)
}

func (n *Transport) isPlainHTTP(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.plainHTTP[host]
}

func (n *Transport) setPlainHTTP(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plainHTTP[host] = true
}

func (n *Transport) send(req *http.Request, scheme string, route Route) (*http.Response, error) {
	transport, err := n.hostTransport(req.URL.Host, route.Insecure)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != scheme {
		req = req.Clone(req.Context())
		req.URL.Scheme = scheme
	}
	return transport.RoundTrip(req)
}

// Proxied reports whether requests to a URL use a proxy.
func (n *Transport) Proxied(u *url.URL) bool {
	proxy, err := n.proxy(u)
	return err == nil && proxy != nil
}

// hostTransport returns the transport of a host, with its certificates.
func (n *Transport) hostTransport(host string, insecure bool) (*http.Transport, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := transportKey{host, insecure}
	if transport := n.transports[at]; transport != nil {
		return transport, nil
	}
	config, err := n.options.CAs.config(host, insecure)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: func(req *http.Request) (*url.URL, error) {
			proxy, err := n.proxy(req.URL)
			if err != nil {
				return nil, n.options.Proxy.Check() // err shows it
			}
			return proxy, nil
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return n.dial(ctx, network, address)
		},
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // digests cover the transferred bytes
	}
	n.transports[at] = transport
	return transport, nil
}

func (n *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	control := n.control
	if n.proxies[address] {
		control = func(context.Context, string, string, syscall.RawConn) error { return nil }
	}
	return n.options.Dial(ctx, control, network, address)
}

// control checks an address after name resolution, right before the
// connection is opened.
func (n *Transport) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("checking the address %s: %w", address, err)
	}
	return checkAddress(at.Addr(), routeOf(ctx))
}

func dial(ctx context.Context, control Control, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, ControlContext: control}
	return dialer.DialContext(ctx, network, address)
}

// isLoopback reports whether a host is the local host by its name or address.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
