// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// challenge is the authentication that a registry requires. The zero value means none.
type challenge struct {
	scheme         string // "basic" or "bearer"
	realm, service string
}

// sessionKey identifies the tokens of a repository: its images share a token.
type sessionKey struct{ host, scopes string }

// session holds the token for some scopes. The holder of the mutex fetches it; other requests wait.
type session struct {
	mutex       mutex
	token       string
	credentials keychain.Credentials // of the token request
	expires     time.Time
}

// mutex is a lock with a context.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

func (t mutex) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t mutex) unlock() { <-t }

// lock locks a mutex whose holder sends a request to the host. It fails if that request stalled.
func (r *request) lock(ctx context.Context, m mutex) error {
	started := time.Now()
	if err := m.lock(ctx); err != nil {
		return err
	}
	if r.host.stalledSince(started) {
		m.unlock()
		r.allowance.lose(time.Since(started))
		return errHostStalled
	}
	return nil
}

// scopes returns the scopes of a token for the request.
func (r *request) scopes() []string {
	own := "repository:" + r.source.Image.Context().RepositoryStr() + ":pull"
	if r.writes {
		own += ",push"
	}
	if r.mounts == "" {
		return []string{own}
	}
	return []string{own, "repository:" + r.mounts + ":pull"}
}

func (r *request) session() *session {
	p := r.image.client
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions == nil {
		p.sessions = map[sessionKey]*session{}
	}
	key := sessionKey{r.source.Host(), strings.Join(r.scopes(), " ")}
	if p.sessions[key] == nil {
		p.sessions[key] = &session{mutex: newMutex()}
	}
	return p.sessions[key]
}

// sendAuthorized requests the resource from an offset, with credentials if the registry requires them. The response has
// a success status.
func (r *request) sendAuthorized(ctx context.Context, from int64) (*response, error) {
	if r.resource.at != nil { // the image names the host: it gets no credentials, and none for a token server that it names
		resp, err := r.get(ctx, from, "")
		if err != nil {
			return nil, err
		}
		return resp, r.checkResponse(resp, from)
	}
	header, learn, err := r.authorize(ctx, "")
	for attempt := 1; err == nil; attempt++ {
		var resp *response
		resp, err = r.get(ctx, from, header)
		learn(resp)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized || resp.redirected {
			return resp, r.checkResponse(resp, from)
		}
		refused := statusError(resp.Response)
		resp.close() // it holds a slot that the request for a token can need
		var next string
		next, learn, err = r.authorize(ctx, header)
		switch {
		case err != nil:
			return nil, err
		case next == header, attempt > 2:
			return nil, refused
		}
		header = next
	}
	return nil, err
}

// authorize returns the Authorization header; stale is a rejected one. The caller must call learn with the response, or
// nil without response.
func (r *request) authorize(ctx context.Context, stale string) (header string, learn func(*response), err error) {
	learn = r.recordChallenge
	if r.image.settings.Keychain != nil {
		if r.credentials, err = r.image.settings.Keychain.Resolve(ctx, r.source.Image.Context().Name()); err != nil {
			return "", nil, &stepError{step: "credentials", err: err}
		}
	}
	if r.credentials.RegistryToken != "" {
		return "Bearer " + r.credentials.RegistryToken, learn, nil
	}
	c := r.host.knownChallenge()
	if c == nil { // the first request determines it, and the others wait
		if err := r.lock(ctx, r.host.challengeMutex); err != nil {
			return "", nil, err
		}
		if c = r.host.knownChallenge(); c == nil {
			return "", func(resp *response) { r.recordChallenge(resp); r.host.challengeMutex.unlock() }, nil
		}
		r.host.challengeMutex.unlock()
	}
	header, err = r.authorization(ctx, *c, stale)
	return header, learn, err
}

// authorization returns the header that answers a challenge.
func (r *request) authorization(ctx context.Context, c challenge, stale string) (string, error) {
	switch {
	case c.scheme == "basic" && r.credentials.Username != "":
		return basic(r.credentials), nil
	case c.scheme == "bearer":
		return r.session().bearerToken(ctx, r, c, stale)
	}
	return "", nil
}

func basic(login keychain.Credentials) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(login.Username+":"+login.Password))
}

// recordChallenge records the challenge of a response.
func (r *request) recordChallenge(resp *response) {
	switch {
	case resp == nil || resp.redirected || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
	case resp.StatusCode == http.StatusUnauthorized:
		r.host.setChallenge(parseChallenge(resp.Header))
	case r.host.knownChallenge() == nil:
		r.host.setChallenge(challenge{})
	}
}

// bearerToken returns the cached token unless it is stale or expired; otherwise it fetches a new one.
func (s *session) bearerToken(ctx context.Context, a *request, c challenge, stale string) (string, error) {
	if err := a.lock(ctx, s.mutex); err != nil {
		return "", err
	}
	defer s.mutex.unlock()
	header := "Bearer " + s.token
	if s.token != "" && header != stale && s.credentials == a.credentials && time.Now().Before(s.expires) {
		return header, nil
	}
	token, lifetime, err := a.fetchToken(ctx, c)
	if err != nil {
		return "", err
	}
	s.token, s.credentials, s.expires = token, a.credentials, time.Now().Add(lifetime)
	return "Bearer " + token, nil
}

// The maximum size of the response of a token server in bytes, the lifetime of a token without "expires_in", and how
// long before its end a token is renewed. See the distribution project's "Token Authentication Specification".
const (
	maxTokenResponse     = 64 << 10
	defaultTokenLifetime = time.Minute
	tokenRenewalMargin   = 10 * time.Second
)

// fetchToken requests a token from the server that a challenge names. Errors do not quote the response.
func (r *request) fetchToken(ctx context.Context, c challenge) (token string, lasts time.Duration, err error) {
	realm, err := url.Parse(c.realm)
	if err != nil || realm.Host == "" || realm.User != nil {
		return "", 0, &stepError{step: "token", err: errNoRealm}
	}
	at := func(err error) error { return &stepError{step: "token", host: realm.Host, err: err} }
	req, err := r.tokenRequest(ctx, *realm, c)
	if err != nil {
		return "", 0, at(err)
	}
	resp, err := r.follow(req, transport.Route{Insecure: r.source.Insecure, Redirected: !r.image.settings.isConfigured(realm, r.image.sources), From: r.host.address()})
	if err != nil {
		return "", 0, at(err)
	}
	defer resp.close()
	if resp.StatusCode != http.StatusOK {
		return "", 0, at(statusError(resp.Response))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenResponse))
	if err == nil {
		token, lasts, err = parseToken(body)
	}
	if err != nil {
		return "", 0, at(err)
	}
	return token, lasts, nil
}

// tokenRequest is a request for a token: with a password, with a refresh token, or anonymous.
func (r *request) tokenRequest(ctx context.Context, realm url.URL, c challenge) (*http.Request, error) {
	if r.credentials.IdentityToken != "" {
		values := url.Values{"service": {c.service}, "scope": {strings.Join(r.scopes(), " ")}}
		values.Set("grant_type", "refresh_token")
		values.Set("refresh_token", r.credentials.IdentityToken)
		values.Set("client_id", "capi-installer")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(values.Encode()))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return req, err
	}
	query := realm.Query()
	query["scope"] = r.scopes()
	if c.service != "" {
		query.Set("service", c.service)
	}
	realm.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err == nil && r.credentials.Username != "" {
		req.Header.Set("Authorization", basic(r.credentials))
	}
	return req, err
}

func parseToken(body []byte) (string, time.Duration, error) {
	var parsed struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	err := json.NewDecoder(bytes.NewReader(body)).Decode(&parsed)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "", 0, errTruncatedToken
	case err != nil:
		return "", 0, errNoToken // err can quote the token
	}
	token := parsed.Token
	if token == "" {
		token = parsed.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, errNoToken
	}
	lifetime := defaultTokenLifetime
	if parsed.ExpiresIn > 0 {
		lifetime = time.Duration(min(parsed.ExpiresIn, 24*3600) * float64(time.Second))
	}
	return token, max(lifetime-tokenRenewalMargin, lifetime/2), nil
}

// parseChallenge returns the supported challenge of a response; bearer takes precedence.
func parseChallenge(header http.Header) challenge {
	var found challenge
	for _, line := range header.Values("WWW-Authenticate") {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch scheme = strings.ToLower(scheme); scheme {
		case "bearer":
			values := parameters(rest)
			return challenge{scheme: scheme, realm: values["realm"], service: values["service"]}
		case "basic":
			found = challenge{scheme: scheme}
		}
	}
	return found
}

// parameters parses key=value and key="value", separated by commas, as in RFC 9110, 11.2.
func parameters(text string) map[string]string {
	found := map[string]string{}
	for {
		key, rest, ok := strings.Cut(text, "=")
		if !ok {
			return found
		}
		value := ""
		rest = strings.TrimLeft(rest, " ")
		if quoted, is := strings.CutPrefix(rest, `"`); is {
			value, text = unquote(quoted)
			_, text, _ = strings.Cut(text, ",")
		} else {
			value, text, _ = strings.Cut(rest, ",")
			value = strings.TrimSpace(value)
		}
		found[strings.ToLower(strings.Trim(key, " ,"))] = value
	}
}

// unquote reads a quoted string up to its closing quote, and returns the rest.
func unquote(text string) (value, rest string) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return out.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		out.WriteByte(text[i])
	}
	return out.String(), ""
}
