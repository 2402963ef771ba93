// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"
)

// Client calls a server.
type Client interface {
	// Call sends a request, and waits for the answer until the timeout.
	Call(ctx context.Context, path string, request []byte, timeout time.Duration) Answer
	// Abort sends a request, all of it or a part, and closes it without waiting for the answer.
	Abort(ctx context.Context, path string, request []byte, all bool)
	// Connection returns the facts about connections to the server.
	Connection(ctx context.Context) Connection
}

// Answer is the answer to a request.
type Answer struct {
	// Status is the HTTP status; 0 without an answer.
	Status int
	Body   []byte
	Took   time.Duration
	// Err is the reason why there is no answer.
	Err error
}

// errTimeout is the reason why there is no answer within the timeout.
var errTimeout = errors.New("no answer within the timeout")

// Connection has the facts about connections to a server.
type Connection struct {
	// Expires is the end of the validity of the server's certificate; zero if it is unknown.
	Expires time.Time
	// OldTLS reports whether the server accepts TLS 1.1 or older.
	OldTLS bool
}

// httpClient calls a server over HTTPS as Cluster API does: without redirects, and with the path of a hook after the
// path of the URL.
type httpClient struct {
	base   *url.URL
	client *http.Client
	tls    *tls.Config
}

// NewClient returns a client of the server at an https URL. caBundle are the PEM certificates of the authorities that sign the
// server's certificate; without them the system's authorities are used.
func NewClient(base string, caBundle []byte) (Client, error) {
	parsed, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, fmt.Errorf("invalid URL %q: want https://HOST[:PORT][/PATH]", base)
	}
	config := &tls.Config{ServerName: parsed.Hostname(), MinVersion: tls.VersionTLS12}
	if len(caBundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(caBundle) {
			return nil, errors.New("the CA bundle has no PEM certificate")
		}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment}
	return &httpClient{base: parsed, tls: config, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// maxAnswer is the largest answer that Cluster API accepts.
const maxAnswer = 20 << 20

func (c *httpClient) Call(ctx context.Context, path string, request []byte, timeout time.Duration) Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	started := time.Now()
	response, err := c.send(ctx, path, bytes.NewReader(request), timeout)
	if err != nil {
		return Answer{Err: causeOf(ctx, err), Took: time.Since(started)}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		err = causeOf(ctx, err)
	}
	return Answer{Status: response.StatusCode, Body: content, Took: time.Since(started), Err: err}
}

// causeOf returns the timeout instead of the error that it leads to.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (c *httpClient) send(ctx context.Context, to string, content io.Reader, timeout time.Duration) (*http.Response, error) {
	target := *c.base
	target.Path = path.Join("/", target.Path, to)
	target.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), content)
	if err != nil {
		return nil, err
	}
	return c.client.Do(request)
}

func (c *httpClient) Abort(ctx context.Context, path string, request []byte, all bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !all {
		request = request[:len(request)/2]
	}
	response, err := c.send(ctx, path, &abortingBody{content: bytes.NewReader(request), all: all, abort: cancel, ctx: ctx}, time.Minute)
	if err == nil {
		response.Body.Close()
	}
}

// abortingBody is the content of a request that is canceled at its end.
type abortingBody struct {
	content io.Reader
	all     bool
	abort   func()
	ctx     context.Context //nolint:containedctx // of the request
}

func (b *abortingBody) Read(buffer []byte) (int, error) {
	n, err := b.content.Read(buffer)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	b.abort()
	if b.all {
		return n, io.EOF
	}
	return n, context.Cause(b.ctx)
}

func (c *httpClient) Connection(ctx context.Context) (facts Connection) {
	if state, err := c.handshake(ctx, c.tls); err == nil && len(state.PeerCertificates) > 0 {
		facts.Expires = state.PeerCertificates[0].NotAfter
	}
	old := c.tls.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := c.handshake(ctx, old)
	facts.OldTLS = err == nil
	return facts
}

// handshake connects to the server with other settings.
func (c *httpClient) handshake(ctx context.Context, config *tls.Config) (tls.ConnectionState, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	port := c.base.Port()
	if port == "" {
		port = "443"
	}
	connection, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", net.JoinHostPort(c.base.Hostname(), port))
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer func() { _ = connection.Close() }()
	state, _ := connection.(*tls.Conn)
	return state.ConnectionState(), nil
}
