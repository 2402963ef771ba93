// SPDX-License-Identifier: Apache-2.0

// Package distribution runs the registry of the distribution project in this process,
// with everything in memory, behind a token server of its own: the code of most
// production registries. Package registry defines the faults and counters.
package distribution

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/token" // a kind of login
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // a kind of storage
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sirupsen/logrus"

	"github.com/capi-installer/capi-installer/test/registry"
)

// Options are the credentials that the token server accepts.
type Options struct {
	Username, Password string
	// CA, if set, signs the certificates of registry and token server.
	CA *registry.CA
}

// Registry is a running registry with its token server.
type Registry struct {
	*registry.Registry
	options Options
	key     *ecdsa.PrivateKey

	mu     sync.Mutex
	scopes []string
	lasts  time.Duration
}

const service, issuer, keyID = "registry of a test", "token server of a test", "key of a test"

// leeway is how long the registry accepts expired tokens.
const leeway = time.Minute

// New starts a registry for a test, and stops it at the end.
func New(t testing.TB, options Options) *Registry {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{options: options, key: key, lasts: time.Hour}
	tokens := httptest.NewServer(http.HandlerFunc(r.serveToken))
	t.Cleanup(tokens.Close)
	logrus.SetOutput(io.Discard) // where the registry writes its log
	app := handlers.NewApp(context.Background(), r.configuration(t, tokens.URL+"/token"))
	t.Cleanup(func() { _ = app.Shutdown() })
	r.Registry = registry.New(t, registry.Options{Handler: app, CA: options.CA})
	return r
}

func (r *Registry) configuration(t testing.TB, realm string) *configuration.Configuration {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.json")
	text, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "kid": keyID, "use": "sig", "alg": "ES256",
		"x": coded(r.key.X.FillBytes(make([]byte, 32))), "y": coded(r.key.Y.FillBytes(make([]byte, 32))),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": {}, "maintenance": {"uploadpurging": map[any]any{"enabled": false}}},
		Auth:    configuration.Auth{"token": {"realm": realm, "service": service, "issuer": issuer, "jwks": keys}},
	}
	config.HTTP.Secret = "of a test"
	config.Log.Level, config.Log.AccessLog.Disabled = "panic", true
	return config
}

func coded(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// Lasts sets the lifetime of new tokens. The token server does not report it.
func (r *Registry) Lasts(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lasts = d
}

// Tokens are the scopes of the issued tokens.
func (r *Registry) Tokens() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.scopes...)
}

// Push pushes an image, and returns the reference to it by digest. Its requests are not counted.
func (r *Registry) Push(t testing.TB, repository string, image v1.Image) string {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(r.Host()+"/"+repository+"@"+digest.String(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	token, err := r.token("pusher", []any{map[string]any{"type": "repository", "name": repository, "actions": []string{"pull", "push"}}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	if r.options.CA != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(r.options.CA.PEM())
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	defer transport.CloseIdleConnections()
	if err := remote.Write(ref, image, remote.WithTransport(authorized{transport, "Bearer " + token})); err != nil {
		t.Fatal(err)
	}
	r.Reset()
	return ref.String()
}

// authorized authenticates with a token that it issues itself: the client that pushes
// does not use a token server on the local host.
type authorized struct {
	next   http.RoundTripper
	header string
}

func (a authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", a.header)
	return a.next.RoundTrip(req)
}

// serveToken issues a token for one repository.
func (r *Registry) serveToken(w http.ResponseWriter, req *http.Request) {
	username, password, _ := req.BasicAuth()
	if username != r.options.Username || password != r.options.Password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var access []any
	for _, scope := range req.URL.Query()["scope"] {
		r.scopes = append(r.scopes, scope)
		parts := strings.Split(scope, ":")
		access = append(access, map[string]any{"type": parts[0], "name": parts[1], "actions": strings.Split(parts[2], ",")})
	}
	token, err := r.token(username, access)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, `{"token": %q, "expires_in": 3600}`, token)
}

// token issues a token for a subject.
func (r *Registry) token(subject string, access []any) (string, error) {
	now := time.Now()
	return r.sign(map[string]any{
		"iss": issuer, "sub": subject, "aud": service, "jti": rand.Text(), "access": access,
		"nbf": now.Add(-time.Hour).Unix(), "iat": now.Add(-time.Hour).Unix(), "exp": now.Add(r.lasts - leeway).Unix(),
	})
}

// sign creates a JSON Web Token (RFC 7519) with ES256.
func (r *Registry) sign(claims map[string]any) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "ES256", "typ": "JWT", "kid": keyID})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := coded(header) + "." + coded(body)
	sum := sha256.Sum256([]byte(signed))
	a, b, err := ecdsa.Sign(rand.Reader, r.key, sum[:])
	if err != nil {
		return "", err
	}
	return signed + "." + coded(append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)), nil
}
