// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// session is a repository of a registry that we are logged in to, if it asks for that.
type session struct {
	client *http.Client
	base   url.URL // ends before "/manifests/…" and "/blobs/…"
	retry  Retry
	stall  time.Duration
}

// defaultTransport has a time limit for each step but the body, whose end only its size tells; stalled bodies are cut by stallable.
var defaultTransport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 15 * time.Second
	t.DisableCompression = true // layers are compressed, and digests are of what is on the wire
	t.MaxIdleConnsPerHost = 8
	return t
}()

// connect asks a registry how it wants to be spoken to, and logs in.
func (r *Registry) connect(ctx context.Context, repo name.Repository) (*session, error) {
	next := defaultTransport
	if r.Transport != nil {
		next = r.Transport
	}
	next = &retrying{next: &guard{next: next, plain: r.plain}, retry: r.Retry.orDefaults()}
	authenticator, err := r.authenticator(ctx, repo)
	if err != nil {
		return nil, err
	}
	rt, err := login(ctx, repo, authenticator, next)
	if err != nil {
		return nil, err
	}
	return &session{
		client: &http.Client{Transport: rt, CheckRedirect: checkRedirect},
		base:   url.URL{Scheme: scheme(r.plain(repo.RegistryStr())), Host: repo.RegistryStr(), Path: "/v2/" + repo.RepositoryStr()},
		retry:  r.Retry.orDefaults(),
		stall:  cmp.Or(r.Stall, stallTime),
	}, nil
}

func scheme(plain bool) string {
	if plain {
		return "http"
	}
	return "https"
}

// plain says whether a host speaks HTTP without TLS.
func (r *Registry) plain(host string) bool {
	return isLoopback(host) || r.PlainHTTP != nil && r.PlainHTTP(host)
}

// isLoopback says whether a host, with or without a port, is this machine by its name.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *Registry) authenticator(ctx context.Context, repo name.Repository) (authn.Authenticator, error) {
	if r.Keychain == nil {
		return authn.Anonymous, nil
	}
	a, err := authn.Resolve(ctx, r.Keychain, repo)
	if err != nil {
		return nil, fmt.Errorf("looking for the credentials of %s: %w", repo.Name(), err)
	}
	return a, nil
}

// login pings a registry and does what its challenge asks for.
func login(ctx context.Context, repo name.Repository, auth authn.Authenticator, next http.RoundTripper) (http.RoundTripper, error) {
	challenge, err := transport.Ping(ctx, repo.Registry, next)
	if err != nil {
		return nil, fmt.Errorf("asking the registry how to log in: %w", clean(err))
	}
	token := &transport.Token{}
	if strings.EqualFold(challenge.Scheme, "bearer") {
		scopes := []string{repo.Scope(transport.PullScope)}
		token, err = transport.Exchange(ctx, repo.Registry, auth, next, scopes, challenge)
		if err != nil {
			return nil, fmt.Errorf("getting a token from %s: %w", realmHost(challenge), cleanToken(err))
		}
	}
	rt, err := transport.FromToken(repo.Registry, auth, next, challenge, token)
	if err != nil {
		return nil, fmt.Errorf("logging in: %w", cleanToken(err))
	}
	return rt, nil
}

// realmHost is the host of the token server that a challenge names.
func realmHost(c *transport.Challenge) string {
	if u, err := url.Parse(c.Parameters["realm"]); err == nil && u.Host != "" {
		return u.Host
	}
	return "a token server that the registry does not name"
}

const maxRedirects = 5

// checkRedirect ends redirect loops. That none leads away from TLS is up to guard, which sees all requests.
func checkRedirect(_ *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	return nil
}

var (
	errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
	errPlain     = errors.New("refusing to speak HTTP without TLS to a host for which that is not allowed")
)

// guard speaks HTTP without TLS to the hosts that are to be spoken to so, and to no other.
type guard struct {
	next  http.RoundTripper
	plain func(host string) bool
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch plain := g.plain(req.URL.Host); {
	case plain && req.URL.Scheme == "https":
		req = req.Clone(req.Context())
		req.URL.Scheme = "http"
	case !plain && req.URL.Scheme != "https":
		return nil, errPlain
	}
	return g.next.RoundTrip(req)
}

// accepted are the manifests that we can read.
var accepted = strings.Join([]string{
	string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
	string(types.OCIImageIndex), string(types.DockerManifestList),
}, ", ")

// get reads a manifest or a blob. read is called again, from the start, if the
// body ends before its end.
func (s *session) get(ctx context.Context, kind string, digest v1.Hash, read func(io.Reader) error) error {
	for attempt := 1; ; attempt++ {
		err := s.try(ctx, kind, digest, read)
		var cut *bodyError
		if !errors.As(err, &cut) || attempt >= s.retry.Attempts {
			return err
		}
		if waitErr := s.retry.wait(ctx, attempt, 0); waitErr != nil {
			return errors.Join(err, waitErr)
		}
	}
}

// try does one request and reads its answer.
func (s *session) try(ctx context.Context, kind string, digest v1.Hash, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(kind, digest.String()).String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if kind == "manifests" {
		req.Header.Set("Accept", accepted)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return clean(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp)
	}
	body := stallable(resp.Body, s.stall, cancel)
	defer body.stop()
	return read(body)
}

// stallTime is the default of Registry.Stall.
const stallTime = 30 * time.Second

var errStalled = errors.New("the body stalled: nothing came for too long")

// bodyError says that a body ended before its end.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "reading the body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// stalling is a body that ends its request when nothing comes, and whose errors are bodyErrors.
type stalling struct {
	next  io.Reader
	time  time.Duration
	timer *time.Timer
}

func stallable(body io.Reader, after time.Duration, cancel context.CancelCauseFunc) *stalling {
	return &stalling{next: body, time: after, timer: time.AfterFunc(after, func() { cancel(errStalled) })}
}

func (s *stalling) stop() { s.timer.Stop() }

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.next.Read(p)
	s.timer.Reset(s.time)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

// StatusError says that a server answered with a status that is no success.
type StatusError struct {
	// URL is what was asked, without its query.
	URL string
	// Code is the HTTP status.
	Code int
	// Reasons are the error codes of the registry, such as "MANIFEST_UNKNOWN".
	Reasons []string
}

// Error implements error. What a server says in its own words is left out: it could repeat what it was sent.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.URL, e.Code, http.StatusText(e.Code))
	if len(e.Reasons) > 0 {
		text += " (" + strings.Join(e.Reasons, ", ") + ")"
	}
	return text + hint(e.Code)
}

// hint says what helps against a status.
func hint(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": check the credentials for this repository"
	case http.StatusNotFound:
		return ": check that the repository holds this digest"
	case http.StatusTooManyRequests:
		return ": the registry limits how often it may be asked"
	}
	return ""
}

// errorBody is how much of an error's body is read.
const errorBody = 64 << 10

func statusError(resp *http.Response) error {
	resp.Body = io.NopCloser(io.LimitReader(resp.Body, errorBody))
	return clean(transport.CheckError(resp, http.StatusOK))
}

// reason is what the code of a registry's error looks like; anything else is not repeated.
var reason = regexp.MustCompile(`^[A-Z_]{1,64}$`)

// clean returns an error without what must not be in a log: queries of URLs,
// which may hold tokens, and what servers say.
func clean(err error) error {
	if status, ok := errors.AsType[*transport.Error](err); ok {
		e := &StatusError{Code: status.StatusCode}
		if status.Request != nil {
			e.URL = bare(status.Request.URL)
		}
		for _, d := range status.Errors {
			if reason.MatchString(string(d.Code)) {
				e.Reasons = append(e.Reasons, string(d.Code))
			}
		}
		return e
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if u, parseErr := url.Parse(failed.URL); parseErr == nil {
			return fmt.Errorf("asking %s: %w", bare(u), failed.Err)
		}
		return failed.Err
	}
	return err
}

// cleanToken is clean for a conversation with a token server, whose errors can hold the token.
func cleanToken(err error) error {
	cleaned := clean(err)
	untouched := cleaned == err //nolint:errorlint // whether it is this very error
	if untouched && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return errors.New("its address is not allowed or its answer holds no token")
	}
	return cleaned
}

// bare is a URL without credentials and query.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
