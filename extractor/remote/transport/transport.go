// SPDX-License-Identifier: Apache-2.0

// Package network reaches registries: with the certificates that each of them
// is trusted by, through proxies, and at no address that nobody configured.
//
//	cas, err := network.ParseCAs(bundle, configMap.Data)
//	n := network.New(network.Options{CAs: cas, Proxy: network.Proxy{HTTPSProxy: "http://proxy.example.com:3128"}})
//	defer n.Close()
//	resp, err := n.RoundTrip(req.WithContext(network.NewContext(ctx, network.Route{Led: true, From: addr})))
package network

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

// Proxy are the proxies of requests, in the syntax of HTTP_PROXY, HTTPS_PROXY and
// NO_PROXY: a list of hosts, domains, addresses, and networks such as
// 10.0.0.0/8, with a port or without. This machine itself is never asked through a proxy.
type Proxy struct {
	HTTPProxy, HTTPSProxy, NoProxy string
}

// ProxyFromEnvironment returns the proxies of the environment, HTTPS_PROXY before https_proxy.
func ProxyFromEnvironment() Proxy {
	env := httpproxy.FromEnvironment()
	return Proxy{env.HTTPProxy, env.HTTPSProxy, env.NoProxy}
}

// ProxyError says that a proxy's address cannot be one. It does not show it: it may hold a password.
type ProxyError struct {
	// Name is HTTP_PROXY or HTTPS_PROXY.
	Name string
}

// Error implements error.
func (e *ProxyError) Error() string {
	return e.Name + " is no URL such as http://proxy.example.com:3128"
}

// Check returns a *ProxyError for each address that is wrong.
func (p Proxy) Check() error {
	var errs []error
	for _, proxy := range []struct{ name, value string }{{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}} {
		if _, err := proxyHost(proxy.value); err != nil {
			errs = append(errs, &ProxyError{proxy.name})
		}
	}
	return errors.Join(errs...)
}

// proxyHost is the host and the port of a proxy; empty if there is none.
func proxyHost(proxy string) (string, error) {
	if proxy == "" {
		return "", nil
	}
	if !strings.Contains(proxy, "://") {
		proxy = "http://" + proxy
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("no proxy")
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme])
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Options are the options of a Network. The zero value trusts whom the system
// trusts and has no proxy.
type Options struct {
	CAs   *CAs
	Proxy Proxy
	// Dial connects to an address, and has control check it before that, as
	// net.Dialer.ControlContext does; nil is a net.Dialer.
	Dial func(ctx context.Context, control Control, network, address string) (net.Conn, error)
}

// Control checks an address with its port before somebody connects to it.
type Control func(ctx context.Context, network, address string, _ syscall.RawConn) error

// Network is an http.RoundTripper, safe for use by many goroutines at once. How
// to reach a request's host is the Route in its context.
type Network struct {
	options Options
	proxy   func(*url.URL) (*url.URL, error)
	proxies map[string]bool

	mu         sync.Mutex
	transports map[key]*http.Transport
	plain      map[string]bool // hosts that were found to speak HTTP without TLS
}

// key is what connections are shared by.
type key struct {
	host     string
	insecure bool
}

// New returns a Network.
func New(options Options) *Network {
	if options.Dial == nil {
		options.Dial = dial
	}
	proxy := httpproxy.Config{HTTPProxy: options.Proxy.HTTPProxy, HTTPSProxy: options.Proxy.HTTPSProxy, NoProxy: options.Proxy.NoProxy}
	n := &Network{options: options, proxy: proxy.ProxyFunc(), proxies: map[string]bool{}, transports: map[key]*http.Transport{}, plain: map[string]bool{}}
	for _, value := range []string{options.Proxy.HTTPProxy, options.Proxy.HTTPSProxy} {
		if host, err := proxyHost(value); err == nil && host != "" {
			n.proxies[host] = true
		}
	}
	return n
}

// Close closes the connections that nobody uses.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, transport := range n.transports {
		transport.CloseIdleConnections()
	}
}

// Route says how a request came to be, and so what it may do.
type Route struct {
	// Insecure lets the host speak HTTP without TLS, and have a certificate that nobody signed.
	Insecure bool
	// Led says that the host was named by a server and not by a person: by a
	// redirect, or as a token server. It may be anywhere in the internet, but in a private network only if
	// the server itself was reached in one, on this machine only if the server is
	// there too, and never at a link-local address.
	Led bool
	// From is the address of that server; the zero value if it is not known.
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

// PlainError says that a host would have to be spoken to without TLS.
type PlainError struct{ Host string }

// Error implements error.
func (e *PlainError) Error() string {
	return fmt.Sprintf("refusing to speak HTTP without TLS to %s: nothing says that it is insecure", e.Host)
}

// RoundTrip implements http.RoundTripper. To a host that may do without TLS it
// speaks TLS first. The error is a *PlainError or an *AddressError if the request must not be made.
func (n *Network) RoundTrip(req *http.Request) (*http.Response, error) {
	route := routeOf(req.Context())
	if err := checkLiteral(req.URL.Hostname(), route); err != nil {
		return nil, err
	}
	host, mayBePlain := req.URL.Host, route.Insecure || isLoopback(req.URL.Hostname())
	if !mayBePlain {
		if req.URL.Scheme != "https" {
			return nil, &PlainError{Host: host}
		}
		return n.send(req, "https", route)
	}
	if req.URL.Scheme == "http" || n.isPlain(host) {
		return n.send(req, "http", route)
	}
	resp, err := n.send(req, "https", route)
	if err != nil && noTLS(err, req.URL) {
		n.setPlain(host)
		return n.send(req, "http", route)
	}
	return resp, err
}

// noTLS says whether an error means that there is no TLS at all, as opposed to a wrong certificate.
func noTLS(err error, u *url.URL) bool {
	_, other := errors.AsType[tls.RecordHeaderError](err)
	return other || u.Port() == "" && errors.Is(err, syscall.ECONNREFUSED)
}

func (n *Network) isPlain(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.plain[host]
}

func (n *Network) setPlain(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plain[host] = true
}

func (n *Network) send(req *http.Request, scheme string, route Route) (*http.Response, error) {
	transport, err := n.transport(req.URL.Host, route.Insecure)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != scheme {
		req = req.Clone(req.Context())
		req.URL.Scheme = scheme
	}
	return transport.RoundTrip(req)
}

// Proxied says whether a URL is asked for through a proxy.
func (n *Network) Proxied(u *url.URL) bool {
	proxy, err := n.proxy(u)
	return err == nil && proxy != nil
}

// transport returns the transport to a host; each has its own, with its own certificates.
func (n *Network) transport(host string, insecure bool) (*http.Transport, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := key{host, insecure}
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
				return nil, n.options.Proxy.Check() // err would show it
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
		DisableCompression:  true, // layers are compressed, and digests are of what is on the wire
	}
	n.transports[at] = transport
	return transport, nil
}

func (n *Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	control := n.control
	if n.proxies[address] {
		control = func(context.Context, string, string, syscall.RawConn) error { return nil }
	}
	return n.options.Dial(ctx, control, network, address)
}

// control checks an address after its name was resolved: what counts is where a
// connection would go, not what a name looks like.
func (n *Network) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
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

// isLoopback says whether a host is this machine by its name.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
