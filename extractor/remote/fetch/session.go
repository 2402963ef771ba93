// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/credential"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
)

// challenge is how a registry wants to be logged in to. The zero value is not at all.
type challenge struct {
	scheme         string // "basic" or "bearer"
	realm, service string
}

// sessionKey is what tokens are shared by: all images of one repository.
type sessionKey struct{ host, repository string }

// session holds the token for a repository. Whoever takes its turn fetches it; the others wait.
type session struct {
	turn    turn
	token   string
	login   credential.Login // that it was got with
	expires time.Time
}

// turn is a lock for which one can wait with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }

func (a *asking) session() *session {
	p := a.puller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions == nil {
		p.sessions = map[sessionKey]*session{}
	}
	key := sessionKey{a.source.Host(), a.source.Image.Context().RepositoryStr()}
	if p.sessions[key] == nil {
		p.sessions[key] = &session{turn: newTurn()}
	}
	return p.sessions[key]
}

// send asks for what is wanted from an offset on, logged in if the registry asks
// for that. The answer is a good one.
func (a *asking) send(ctx context.Context, from int64) (*answer, error) {
	header, learn, err := a.authorize(ctx, "")
	for attempt := 1; err == nil; attempt++ {
		var resp *answer
		resp, err = a.request(ctx, from, header)
		learn(resp)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized || resp.led {
			return resp, a.check(resp, from)
		}
		refused := statusError(resp.Response)
		resp.close() // it could be in the way of getting a token
		var next string
		next, learn, err = a.authorize(ctx, header)
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

// authorize returns the header to log in with; stale is one that was refused. learn must be
// called with the answer, nil if there was none.
func (a *asking) authorize(ctx context.Context, stale string) (header string, learn func(*answer), err error) {
	learn = a.learn
	if a.access.Logins != nil {
		if a.login, err = a.access.Logins.Find(ctx, a.source.Image.Context().Name()); err != nil {
			return "", nil, &stepError{step: "credentials", err: err}
		}
	}
	if a.login.RegistryToken != "" {
		return "Bearer " + a.login.RegistryToken, learn, nil
	}
	c := a.host.challenged()
	if c == nil { // the first request finds out, and the others wait for it
		if err := a.host.turn.take(ctx); err != nil {
			return "", nil, err
		}
		if c = a.host.challenged(); c == nil {
			return "", func(resp *answer) { a.learn(resp); a.host.turn.give() }, nil
		}
		a.host.turn.give()
	}
	header, err = a.answerTo(ctx, *c, stale)
	return header, learn, err
}

// answerTo returns the header that a challenge asks for.
func (a *asking) answerTo(ctx context.Context, c challenge, stale string) (string, error) {
	switch {
	case c.scheme == "basic" && a.login.Username != "":
		return basic(a.login), nil
	case c.scheme == "bearer":
		return a.session().bearer(ctx, a, c, stale)
	}
	return "", nil
}

func basic(login credential.Login) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(login.Username+":"+login.Password))
}

// learn takes note of how the registry wants to be logged in to.
func (a *asking) learn(resp *answer) {
	switch {
	case resp == nil || resp.led || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
	case resp.StatusCode == http.StatusUnauthorized:
		a.host.challengedBy(parseChallenge(resp.Header))
	case a.host.challenged() == nil:
		a.host.challengedBy(challenge{})
	}
}

// bearer returns a token: the one that there is, unless it is stale, or a new one.
func (s *session) bearer(ctx context.Context, a *asking, c challenge, stale string) (string, error) {
	if err := s.turn.take(ctx); err != nil {
		return "", err
	}
	defer s.turn.give()
	header := "Bearer " + s.token
	if s.token != "" && header != stale && s.login == a.login && time.Now().Before(s.expires) {
		return header, nil
	}
	token, lasts, err := a.token(ctx, c)
	if err != nil {
		return "", err
	}
	s.token, s.login, s.expires = token, a.login, time.Now().Add(lasts)
	return "Bearer " + token, nil
}

// What is read of a token server's answer, how long a token lasts that does not say
// so, and how much earlier it is renewed. See the distribution project's "Token Authentication Specification".
const (
	tokenBody     = 64 << 10
	tokenLasts    = time.Minute
	tokenLastsMin = 10 * time.Second
)

// token gets a token from the server that a challenge names. Errors hold nothing of what it says.
func (a *asking) token(ctx context.Context, c challenge) (token string, lasts time.Duration, err error) {
	realm, err := url.Parse(c.realm)
	if err != nil || realm.Host == "" || realm.User != nil {
		return "", 0, &stepError{step: "token", err: errNoRealm}
	}
	at := func(err error) error { return &stepError{step: "token", host: realm.Host, err: err} }
	req, err := a.tokenRequest(ctx, *realm, c)
	if err != nil {
		return "", 0, at(err)
	}
	resp, err := a.follow(req, network.Route{Insecure: a.source.Insecure, Led: !a.access.named(realm, a.sources), From: a.host.address()})
	if err != nil {
		return "", 0, at(err)
	}
	defer resp.close()
	if resp.StatusCode != http.StatusOK {
		return "", 0, at(statusError(resp.Response))
	}
	token, lasts, err = readToken(resp.Body)
	if err != nil {
		return "", 0, at(err)
	}
	return token, lasts, nil
}

// tokenRequest is a request for a token: as somebody with a password, with a refresh token, or as nobody.
func (a *asking) tokenRequest(ctx context.Context, realm url.URL, c challenge) (*http.Request, error) {
	values := url.Values{"service": {c.service}, "scope": {"repository:" + a.source.Image.Context().RepositoryStr() + ":pull"}}
	if a.login.IdentityToken != "" {
		values.Set("grant_type", "refresh_token")
		values.Set("refresh_token", a.login.IdentityToken)
		values.Set("client_id", "capi-installer")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(values.Encode()))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return req, err
	}
	query := realm.Query()
	for key := range values {
		if values.Get(key) != "" {
			query.Set(key, values.Get(key))
		}
	}
	realm.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err == nil && a.login.Username != "" {
		req.Header.Set("Authorization", basic(a.login))
	}
	return req, err
}

func readToken(body io.Reader) (string, time.Duration, error) {
	var answer struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if err := json.NewDecoder(io.LimitReader(body, tokenBody)).Decode(&answer); err != nil {
		return "", 0, errNoToken // err could show it
	}
	token := answer.Token
	if token == "" {
		token = answer.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, errNoToken
	}
	lasts := tokenLasts
	if answer.ExpiresIn > 0 {
		lasts = time.Duration(min(answer.ExpiresIn, 24*3600) * float64(time.Second))
	}
	return token, max(lasts-tokenLastsMin, lasts/2), nil
}

// parseChallenge returns the challenge of an answer that we can meet; bearer, if there are several.
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

// unquote reads a quoted string up to its closing quote, and returns what follows.
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
