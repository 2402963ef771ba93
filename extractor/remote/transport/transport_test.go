// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/capi-installer/capi-installer/internal/certificate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKindOf(t *testing.T) {
	for address, want := range map[string]addressKind{
		"8.8.8.8": public, "2606:4700::1": public, "172.32.0.1": public, "100.128.0.1": public,
		"10.1.2.3": private, "172.16.0.1": private, "192.168.1.1": private, "fd00::1": private, "100.64.0.1": private, "198.18.0.1": private,
		"127.0.0.1": loopback, "127.9.9.9": loopback, "::1": loopback,
		"169.254.169.254": reserved, "fe80::1": reserved, "fe80::1%eth0": reserved, "0.0.0.0": reserved, "::": reserved, "224.0.0.1": reserved, "255.255.255.255": reserved, "240.0.0.1": reserved, "ff02::1": reserved,
		"192.0.0.192": reserved, "fec0::1": reserved, "0.1.2.3": reserved, "192.0.1.1": public, "198.20.0.1": public, "198.19.255.255": private, "100.127.255.255": private,
		"::ffff:127.0.0.1": loopback, "::ffff:10.0.0.1": private, "::ffff:169.254.169.254": reserved, "::ffff:8.8.8.8": public,
		"64:ff9b::a9fe:a9fe": reserved, "64:ff9b::808:808": public, "2002:a00:1::": private, "2002:7f00:1::": loopback,
	} {
		if got := kindOf(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

// resolver is a dialer that resolves names from a table, checks every address as net.Dialer does, and never connects.
type resolver struct {
	names map[string]string
	let   []string // the accepted addresses
}

var errNotConnected = errors.New("this dialer never connects")

func (r *resolver) dial(ctx context.Context, control Control, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if resolved, found := r.names[host]; found {
		host = resolved
	}
	address = net.JoinHostPort(host, port)
	if err := control(ctx, network, address, nil); err != nil {
		return nil, err
	}
	r.let = append(r.let, address)
	return nil, errNotConnected
}

func TestTransport_RestrictsRedirects(t *testing.T) {
	names := map[string]string{
		"cdn.example.com": "93.184.216.34", "inside.example.com": "10.0.0.7", "metadata.example.com": "169.254.169.254", "here.example.com": "127.0.0.1", "six.example.com": "fd00::7", "mapped.example.com": "::ffff:10.0.0.7",
	}
	privately, publicly, locally := Route{Redirected: true, From: netip.MustParseAddr("10.9.9.9")}, Route{Redirected: true, From: netip.MustParseAddr("93.184.216.1")}, Route{Redirected: true, From: netip.MustParseAddr("127.0.0.2")}
	for _, test := range []struct {
		url   string
		route Route
		let   bool
	}{
		{"https://inside.example.com", Route{}, true}, // named by a user
		{"https://10.0.0.7:8443", Route{}, true},
		{"https://metadata.example.com", Route{}, true},
		{"https://cdn.example.com", publicly, true},
		{"https://cdn.example.com", privately, true},
		{"https://inside.example.com", publicly, false},
		{"https://six.example.com", publicly, false},
		{"https://mapped.example.com", publicly, false},
		{"https://10.0.0.7", publicly, false},
		{"https://[fd00::7]:8443", publicly, false},
		{"https://inside.example.com", Route{Redirected: true}, false}, // from an unknown host
		{"https://inside.example.com", privately, true},
		{"https://six.example.com", privately, true},
		{"https://10.0.0.7:8443", privately, true},
		{"https://metadata.example.com", privately, false},
		{"https://169.254.169.254", privately, false},
		{"https://metadata.example.com", Route{Redirected: true, From: netip.MustParseAddr("169.254.1.1")}, false},
		{"https://here.example.com", privately, false},
		{"https://here.example.com", publicly, false},
		{"https://127.0.0.1", publicly, false},
		{"https://here.example.com", locally, true},
		{"https://inside.example.com", locally, false},
	} {
		t.Run(fmt.Sprint(test.url, test.route), func(t *testing.T) {
			r := &resolver{names: names}
			n := New(Options{Dial: r.dial})
			defer n.Close()
			_, err := n.RoundTrip(request(t, test.url, test.route))
			var refused *AddressError
			if errors.As(err, &refused) == test.let || errors.Is(err, errNotConnected) != test.let || (len(r.let) == 1) != test.let {
				t.Errorf("got %v, accepted: %v, want %t", err, r.let, test.let)
			}
		})
	}
}

func request(t *testing.T, url string, route Route) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(NewContext(t.Context(), route), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestTransport_UsesTheProxy(t *testing.T) {
	proxy := Proxy{HTTPProxy: "http://user:s3cr3t@proxy.example.com:3128", HTTPSProxy: "secure.example.com:3129", NoProxy: ".cluster.local,10.0.0.0/8,direct.example.com:5000,fd00::/8"}
	for url, want := range map[string]string{
		"https://quay.io":                    "secure.example.com:3129",
		"https://10.1.2.3":                   "10.1.2.3:443",
		"https://11.1.2.3":                   "secure.example.com:3129",
		"https://[fd00::1]:5000":             "[fd00::1]:5000",
		"https://registry.svc.cluster.local": "registry.svc.cluster.local:443",
		"https://direct.example.com:5000":    "direct.example.com:5000",
		"https://direct.example.com":         "secure.example.com:3129",
		"https://127.0.0.1:5000":             "127.0.0.1:5000",
		"http://insecure.example.com":        "proxy.example.com:3128",
	} {
		var dialed []string
		n := New(Options{Proxy: proxy, Dial: func(_ context.Context, _ Control, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			return nil, errNotConnected
		}})
		req := request(t, url, Route{Insecure: true})
		_, err := n.RoundTrip(req)
		if !slices.Equal(dialed, []string{want}) || strings.Contains(fmt.Sprint(err), "s3cr3t") {
			t.Errorf("%s: dialed %v, want %s; %v", url, dialed, want, err)
		}
		if n.Proxied(req.URL) != (strings.HasPrefix(want, "proxy.") || strings.HasPrefix(want, "secure.")) {
			t.Errorf("%s: Proxied is %t", url, n.Proxied(req.URL))
		}
		n.Close()
	}
}

func TestTransport_RedirectThroughAPrivateProxy(t *testing.T) {
	r := &resolver{names: map[string]string{"proxy.example.com": "10.0.0.1", "other.example.com": "10.0.0.1"}}
	n := New(Options{Proxy: Proxy{HTTPSProxy: "http://proxy.example.com:3128", NoProxy: "other.example.com"}, Dial: r.dial})
	defer n.Close()
	if _, err := n.RoundTrip(request(t, "https://cdn.example.com", Route{Redirected: true})); !errors.Is(err, errNotConnected) {
		t.Errorf("got %v", err)
	}
	for _, url := range []string{"https://169.254.169.254", "https://10.0.0.9", "https://other.example.com"} {
		_, err := n.RoundTrip(request(t, url, Route{Redirected: true}))
		var refused *AddressError
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", url, err)
		}
	}
	if len(r.let) != 1 {
		t.Errorf("accepted: %v", r.let)
	}
}

func TestProxy_InvalidURLIsNotShown(t *testing.T) {
	proxy := Proxy{HTTPSProxy: "http://user:s3cr3t@pro xy:80"}
	err := proxy.Check()
	var wrong *ProxyError
	if !errors.As(err, &wrong) || wrong.Name != "HTTPS_PROXY" || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
	if err := (Proxy{HTTPProxy: "proxy.example.com", HTTPSProxy: "socks5://127.0.0.1"}).Check(); err != nil {
		t.Error(err)
	}
}

// secure starts a server with TLS, whose certificate is for example.com, 127.0.0.1 and ::1.
func secure(t *testing.T) (host, bundle string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %d", r.Proto, len(r.TLS.PeerCertificates))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// get returns the body of a response.
func get(t *testing.T, n *Transport, url string, route Route) (string, error) {
	t.Helper()
	resp, err := n.RoundTrip(request(t, url, route))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestCAs_OfOneHost(t *testing.T) {
	host, bundle := secure(t)
	for name, test := range map[string]struct {
		everywhere string
		hosts      map[string]string
		trusted    bool
	}{
		"no host":                {},
		"the host":               {hosts: map[string]string{strings.Replace(host, ":", "..", 1): bundle}, trusted: true},
		"everywhere":             {everywhere: bundle, trusted: true},
		"another host":           {hosts: map[string]string{"127.0.0.1..1": bundle, "127.0.0.1": bundle}},
		"after an invalid entry": {hosts: map[string]string{"bad.example.com": "no certificate", strings.Replace(host, ":", "..", 1): bundle}, trusted: true},
	} {
		t.Run(name, func(t *testing.T) {
			cas, err := ParseCAs([]byte(test.everywhere), test.hosts)
			var wrong *CertificateError
			if bad := strings.Contains(name, "invalid"); errors.As(err, &wrong) != bad || bad && wrong.Origin != "bad.example.com" {
				t.Errorf("got %v", err)
			}
			n := New(Options{CAs: cas})
			defer n.Close()
			body, err := get(t, n, "https://"+host, Route{})
			var untrusted *tls.CertificateVerificationError
			if errors.As(err, &untrusted) == test.trusted || (err == nil) != test.trusted {
				t.Errorf("got %v", err)
			}
			if test.trusted && body != "HTTP/2.0 0" {
				t.Errorf("got %q", body)
			}
		})
	}
}

func TestTransport_InsecureHost(t *testing.T) {
	host, _ := secure(t)
	n := New(Options{})
	defer n.Close()
	if body, err := get(t, n, "https://"+host, Route{Insecure: true}); err != nil || body != "HTTP/2.0 0" {
		t.Errorf("got %q, %v", body, err)
	}
	asked := 0
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		fmt.Fprint(w, r.TLS == nil)
	}))
	defer plain.Close()
	for range 2 {
		if body, err := get(t, n, strings.Replace(plain.URL, "http:", "https:", 1), Route{}); err != nil || body != "true" {
			t.Errorf("got %q, %v", body, err)
		}
	}
	if asked != 2 {
		t.Errorf("%d requests", asked)
	}
}

func TestTransport_OtherHostsNeedTLS(t *testing.T) {
	r := &resolver{}
	n := New(Options{Dial: r.dial})
	defer n.Close()
	for _, url := range []string{"http://registry.example.com", "http://10.0.0.1:5000", "http://registry.local"} {
		_, err := n.RoundTrip(request(t, url, Route{}))
		var plain *PlainHTTPError
		if !errors.As(err, &plain) || len(r.let) > 0 {
			t.Errorf("%s: got %v, dialed %v", url, err, r.let)
		}
	}
}

func TestTransport_InsecureHostWithoutTLSPort(t *testing.T) {
	var dialed []string
	n := New(Options{Dial: func(_ context.Context, _ Control, _, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}})
	defer n.Close()
	for range 2 {
		_, _ = n.RoundTrip(request(t, "https://registry.example.com", Route{Insecure: true}))
	}
	if want := []string{"registry.example.com:443", "registry.example.com:80", "registry.example.com:80"}; !slices.Equal(dialed, want) {
		t.Errorf("dialed %v, want %v", dialed, want)
	}
}

func TestReadCertsDirs(t *testing.T) {
	host, bundle := secure(t)
	dir := t.TempDir()
	own := filepath.Join(dir, host)
	issued, _ := issue(t)
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ca.crt": bundle, "us.cert": string(issued.Certificate), "us.key": string(issued.Key), "bad.crt": "no certificate", "alone.cert": string(issued.Certificate)} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cas, err := ReadCertsDirs(filepath.Join(dir, "missing"), dir)
	for _, file := range []string{"bad.crt", "alone.cert"} {
		if err == nil || !strings.Contains(err.Error(), filepath.Join(own, file)) {
			t.Errorf("got %v, want an error with %s", err, file)
		}
	}
	other, err := ParseCAs(nil, map[string]string{"other.example.com": bundle})
	if err != nil {
		t.Fatal(err)
	}
	n := New(Options{CAs: other.Merge(cas)})
	defer n.Close()
	if body, err := get(t, n, "https://"+host, Route{}); err != nil || body != "HTTP/2.0 1" {
		t.Errorf("got %q, %v, want a client certificate", body, err)
	}
	if (*CAs)(nil).Merge(cas) != cas || cas.Merge(nil) != cas {
		t.Error("a merge without certificates changed the certificates")
	}
}

// issue returns a certificate, and its authority that no server uses.
func issue(t *testing.T) (issued certificate.Serving, authority string) {
	t.Helper()
	issued, bundle, err := certificate.NewServing(time.Now().Add(time.Hour), "client.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return issued, string(bundle)
}

// TestCAs_NamesOfAHost: the port of HTTPS can be left out in a key.
func TestCAs_NamesOfAHost(t *testing.T) {
	_, bundle := secure(t)
	for _, test := range []struct {
		key, host string
		want      bool
	}{
		{"registry.example.com", "registry.example.com", true}, {"registry.example.com", "registry.example.com:443", true},
		{"registry.example.com..443", "registry.example.com:443", true}, {"registry.example.com..5000", "registry.example.com:5000", true},
		{"registry.example.com", "registry.example.com:5000", false}, {"registry.example.com..5000", "registry.example.com", false},
	} {
		cas, err := ParseCAs(nil, map[string]string{test.key: bundle})
		if err != nil {
			t.Fatal(err)
		}
		config, err := cas.config(test.host, false)
		if err != nil || (config.RootCAs != nil) != test.want || config.InsecureSkipVerify {
			t.Errorf("%s for %s: own CAs: %t, %v", test.key, test.host, config.RootCAs != nil, err)
		}
	}
}

// TestCAs_MergeKeepsAll: the bundle for all hosts comes from the cluster, and certs.d has the bundles of single
// hosts.
func TestCAs_MergeKeepsAll(t *testing.T) {
	host, bundle := secure(t)
	everywhere, err := ParseCAs([]byte(bundle), nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := ParseCAs(nil, map[string]string{strings.Replace(host, ":", "..", 1): bundle})
	if err != nil {
		t.Fatal(err)
	}
	none, err := ReadCertsDirs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, other := issue(t)
	two, err := ParseCAs(nil, map[string]string{strings.Replace(host, ":", "..", 1): other})
	if err != nil {
		t.Fatal(err)
	}
	for name, cas := range map[string]*CAs{
		"two of the host, upper": two.Merge(one), "two of the host, lower": one.Merge(two),
		"for all hosts, upper": none.Merge(everywhere), "for all hosts, lower": everywhere.Merge(none), "of the host, upper": none.Merge(one), "of the host, lower": one.Merge(none),
	} {
		n := New(Options{CAs: cas})
		if _, err := get(t, n, "https://"+host, Route{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n.Close()
	}
	n := New(Options{CAs: none})
	defer n.Close()
	if _, err := get(t, n, "https://"+host, Route{}); err == nil {
		t.Error("without CAs, the server is trusted")
	}
}
