// SPDX-License-Identifier: Apache-2.0

// Package keychain resolves credentials for registries: from the
// pull secret of a cluster, the auth files of podman, skopeo, oc and docker, and credential helpers.
//
//	secret, err := keychain.ParseSecret("Secret openshift-config/pull-secret", data[".dockerconfigjson"])
//	login, err := keychain.Chain{secret, keychain.File{Path: path}}.Resolve(ctx, "quay.io/example/provider")
//
// Keys are scoped by path: for "quay.io/example/provider", the first existing key of "quay.io/example/provider",
// "quay.io/example", "quay.io" and "*.io" is used. Keys match whole path elements: "quay.io/foo" does not match
// "quay.io/foobar". A mirror has its own keys; it never receives the password of another registry.
package keychain

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Credentials authenticate to a registry. The zero value is anonymous. Printing
// Credentials never shows the secrets.
type Credentials struct {
	// Key is the key of the entry and Origin its file or object, for messages.
	Key, Origin string

	Username, Password string
	// IdentityToken is a refresh token for the registry's token server (OAuth 2).
	IdentityToken string
	// RegistryToken is a bearer token for the registry itself.
	RegistryToken string
}

// Anonymous reports whether there are no credentials.
func (l Credentials) Anonymous() bool {
	return l.Username == "" && l.Password == "" && l.IdentityToken == "" && l.RegistryToken == ""
}

// String names the entry and the origin of the credentials.
func (l Credentials) String() string {
	if l.Anonymous() {
		return "no credentials"
	}
	return fmt.Sprintf("the credentials of %q in %s", l.Key, l.Origin)
}

// GoString returns String(), so that %#v does not show a password.
func (l Credentials) GoString() string { return l.String() }

// Format implements fmt.Formatter, so that no verb shows a password.
func (l Credentials) Format(f fmt.State, _ rune) { fmt.Fprint(f, l.String()) }

// Keychain resolves the credentials for a repository, such as "quay.io/example/provider".
type Keychain interface {
	// Resolve returns the credentials, or the zero value and no error if there are none.
	Resolve(ctx context.Context, repository string) (Credentials, error)
}

// Chain returns the credentials of the first Keychain that has any. After an error it
// tries the next one, and returns the error only if none has credentials.
type Chain []Keychain

// Resolve implements Keychain.
func (c Chain) Resolve(ctx context.Context, repository string) (Credentials, error) {
	var errs []error
	for _, f := range c {
		login, err := f.Resolve(ctx, repository)
		if err == nil && !login.Anonymous() {
			return login, nil
		}
		errs = append(errs, err)
	}
	return Credentials{}, errors.Join(errs...)
}

// Secret is a parsed .dockerconfigjson from a pull secret or an auth file. It is
// immutable. It ignores credential helpers, because an object in a cluster must
// not select programs to run.
type Secret struct {
	origin      string
	credentials map[string]Credentials
}

// entry is one of the "auths". See the documentation of containers-auth.json(5).
type authEntry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// SecretError reports an invalid secret without its content.
type SecretError struct {
	// Origin is the file or object, and Key the invalid entry; empty for the whole secret.
	Origin, Key string
	Err         error
}

// Error implements error.
func (e *SecretError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("reading the credentials in %s: %v", e.Origin, e.Err)
	}
	return fmt.Sprintf("reading the credentials of %q in %s: %v", e.Key, e.Origin, e.Err)
}
func (e *SecretError) Unwrap() error { return e.Err }

// ParseSecret parses the value of the key ".dockerconfigjson" of a Secret, or an
// auth file. origin names it, such as "Secret openshift-config/pull-secret", for errors and credentials.
//
// Invalid entries are omitted: the error joins a *SecretError for each, and the
// Secret has the valid ones. The Secret is nil if data is malformed.
func ParseSecret(origin string, data []byte) (*Secret, error) {
	var config struct {
		Auths map[string]authEntry `json:"auths"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		// The error of the decoder can quote the secret.
		return nil, &SecretError{Origin: origin, Err: errors.New("invalid .dockerconfigjson: want a JSON object {\"auths\": {…}}")}
	}
	s := &Secret{origin: origin, credentials: map[string]Credentials{}}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		login, err := config.Auths[key].credentials()
		if err != nil {
			errs = append(errs, &SecretError{Origin: origin, Key: key, Err: err})
			continue
		}
		login.Key, login.Origin = key, origin
		if normal := normalized(key); !login.Anonymous() && s.credentials[normal].Anonymous() {
			s.credentials[normal] = login
		}
	}
	return s, errors.Join(errs...)
}

func (e authEntry) credentials() (Credentials, error) {
	l := Credentials{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
	if e.Auth == "" {
		return l, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.Auth))
	if err != nil {
		return Credentials{}, errors.New("invalid \"auth\": want base64")
	}
	user, password, found := strings.Cut(string(decoded), ":")
	if !found {
		return Credentials{}, errors.New("invalid \"auth\": want base64 of \"user:password\"")
	}
	l.Username, l.Password = user, strings.TrimRight(password, "\x00")
	return l, nil
}

// normalized returns the form of a key that is used for lookups. Keys can be URLs, and Docker Hub has
// several names.
func normalized(key string) string {
	_, rest, found := strings.Cut(key, "://")
	if !found {
		rest = key
	}
	rest = strings.TrimRight(rest, "/")
	if host, version, _ := strings.Cut(rest, "/"); version == "v1" || version == "v2" {
		rest = host
	}
	host, below, found := strings.Cut(rest, "/")
	switch host {
	case "docker.io", "registry-1.docker.io":
		host = "index.docker.io"
	}
	if !found {
		return host
	}
	return host + "/" + below
}

// Resolve implements Keychain. It looks for the longest matching path first, then for keys
// with wildcards such as "*.example.com", where path.Match matches each label of the host.
func (s *Secret) Resolve(_ context.Context, repository string) (Credentials, error) {
	if s == nil {
		return Credentials{}, nil
	}
	key := normalized(repository)
	for {
		if login, found := s.credentials[key]; found {
			return login, nil
		}
		slash := strings.LastIndexByte(key, '/')
		if slash < 0 {
			return s.matchWildcard(key), nil
		}
		key = key[:slash]
	}
}

// matchWildcard returns the longest matching key with a wildcard.
func (s *Secret) matchWildcard(host string) Credentials {
	var found Credentials
	var longest string
	for key, login := range s.credentials {
		if strings.Contains(key, "*") && matchesWildcard(host, key) && (len(key) > len(longest) || len(key) == len(longest) && key < longest) {
			found, longest = login, key
		}
	}
	return found
}

func matchesWildcard(host, pattern string) bool {
	labels, patterns := strings.Split(host, "."), strings.Split(pattern, ".")
	if len(labels) != len(patterns) {
		return false
	}
	for i := range labels {
		if ok, err := path.Match(patterns[i], labels[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// Keys returns the sorted, normalized keys with credentials.
func (s *Secret) Keys() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.credentials))
}

// File is a .dockerconfigjson on disk, such as a mounted Secret or an auth file.
// Each call reads the file, so changes take effect immediately. A missing file has
// no credentials. Credential helpers are ignored; use System for them.
type File struct {
	// Path is the path of the file; "" means no file.
	Path string
}

// Resolve implements Keychain.
func (f File) Resolve(ctx context.Context, repository string) (Credentials, error) {
	data, err := os.ReadFile(f.Path)
	if f.Path == "" || errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, nil
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("reading credentials: %w", err)
	}
	secret, err := ParseSecret(f.Path, data)
	if secret == nil {
		return Credentials{}, err
	}
	login, _ := secret.Resolve(ctx, repository)
	if !login.Anonymous() {
		return login, nil
	}
	return login, err
}
