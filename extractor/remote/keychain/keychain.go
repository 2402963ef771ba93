// SPDX-License-Identifier: Apache-2.0

// Package credential finds out as whom a registry is to be asked: with the
// pull secret of a cluster, the auth files of podman, skopeo, oc and docker, and credential helpers.
//
//	secret, err := credential.ParseSecret(data[".dockerconfigjson"])
//	login, err := credential.Chain{secret, credential.File{Path: path}}.Find(ctx, "quay.io/example/provider")
//
// Keys are scoped by path: of "quay.io/example/provider", "quay.io/example",
// "quay.io" and "*.io" the first that there is counts. A key ends at a slash:
// "quay.io/foo" is not for "quay.io/foobar". A mirror has its own keys; nobody is told the password of another registry.
package credential

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

// Login is as whom to ask a registry. The zero value is nobody. It prints
// without its secrets.
type Login struct {
	// Key is under which key it was found, and Origin where; for messages.
	Key, Origin string

	Username, Password string
	// IdentityToken is a refresh token for the registry's token server (OAuth 2).
	IdentityToken string
	// RegistryToken is a bearer token for the registry itself.
	RegistryToken string
}

// Anonymous says that there are no credentials.
func (l Login) Anonymous() bool {
	return l.Username == "" && l.Password == "" && l.IdentityToken == "" && l.RegistryToken == ""
}

// String says where the credentials are from.
func (l Login) String() string {
	if l.Anonymous() {
		return "no credentials"
	}
	return fmt.Sprintf("the credentials of %q in %s", l.Key, l.Origin)
}

// GoString is String, so that no format shows a password.
func (l Login) GoString() string { return l.String() }

// Format implements fmt.Formatter, for the same reason.
func (l Login) Format(f fmt.State, _ rune) { fmt.Fprint(f, l.String()) }

// Finder finds the credentials for a repository, such as "quay.io/example/provider".
type Finder interface {
	// Find returns them; the zero Login, and no error, if there are none.
	Find(ctx context.Context, repository string) (Login, error)
}

// Chain asks each Finder until one has credentials. One that fails does not
// keep the next from being asked; its error is returned if none has credentials.
type Chain []Finder

// Find implements Finder.
func (c Chain) Find(ctx context.Context, repository string) (Login, error) {
	var errs []error
	for _, f := range c {
		login, err := f.Find(ctx, repository)
		if err == nil && !login.Anonymous() {
			return login, nil
		}
		errs = append(errs, err)
	}
	return Login{}, errors.Join(errs...)
}

// Secret is a parsed .dockerconfigjson: the content of a pull secret, or of an
// auth file. It does not change, and it runs no helpers, whatever its text says: text in a
// cluster is not to choose programs.
type Secret struct {
	origin string
	logins map[string]Login
}

// entry is one of the "auths". See the documentation of containers-auth.json(5).
type entry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// SecretError says what is wrong with a secret, without showing it.
type SecretError struct {
	// Origin is where it is, and Key which entry is wrong; empty if it is the whole.
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
// auth file. origin is where it is, such as "Secret openshift-config/pull-secret"; errors and logins name it.
//
// Entries that cannot be decoded are left out; the error joins a *SecretError for
// each, and the Secret beside it has the others. It is nil if nothing can be read.
func ParseSecret(origin string, data []byte) (*Secret, error) {
	var config struct {
		Auths map[string]entry `json:"auths"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		// What the decoder says can quote what it read.
		return nil, &SecretError{Origin: origin, Err: errors.New("it is not the JSON object {\"auths\": {…}} of a .dockerconfigjson")}
	}
	s := &Secret{origin: origin, logins: map[string]Login{}}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		login, err := config.Auths[key].login()
		if err != nil {
			errs = append(errs, &SecretError{Origin: origin, Key: key, Err: err})
			continue
		}
		login.Key, login.Origin = key, origin
		if normal := normalized(key); !login.Anonymous() && s.logins[normal].Anonymous() {
			s.logins[normal] = login
		}
	}
	return s, errors.Join(errs...)
}

func (e entry) login() (Login, error) {
	l := Login{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
	if e.Auth == "" {
		return l, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.Auth))
	if err != nil {
		return Login{}, errors.New("its \"auth\" is not base64")
	}
	user, password, found := strings.Cut(string(decoded), ":")
	if !found {
		return Login{}, errors.New("its \"auth\" is not base64 of \"user:password\"")
	}
	l.Username, l.Password = user, strings.TrimRight(password, "\x00")
	return l, nil
}

// normalized is a key as the lookup has it: keys can be URLs, and Docker Hub has several names.
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

// Find implements Finder. It looks for the longest key by path first, then for
// keys with wildcards ("*.example.com", as path.Match has them for each label of the host).
func (s *Secret) Find(_ context.Context, repository string) (Login, error) {
	if s == nil {
		return Login{}, nil
	}
	key := normalized(repository)
	for {
		if login, found := s.logins[key]; found {
			return login, nil
		}
		slash := strings.LastIndexByte(key, '/')
		if slash < 0 {
			return s.wild(key), nil
		}
		key = key[:slash]
	}
}

// wild finds a key with a wildcard; the longest, if there are several.
func (s *Secret) wild(host string) Login {
	var found Login
	var longest string
	for key, login := range s.logins {
		if strings.Contains(key, "*") && matches(host, key) && (len(key) > len(longest) || len(key) == len(longest) && key < longest) {
			found, longest = login, key
		}
	}
	return found
}

func matches(host, pattern string) bool {
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

// Keys are the keys for which there are credentials, as the lookup has them, sorted.
func (s *Secret) Keys() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.logins))
}

// File is a .dockerconfigjson on disk, such as a mounted Secret or an auth file.
// It is read each time it is asked, so that a new content counts at once. A file that is
// not there holds nothing. Helpers that it names are not run; see System for that.
type File struct {
	// Path is its path; "" is none.
	Path string
}

// Find implements Finder.
func (f File) Find(ctx context.Context, repository string) (Login, error) {
	data, err := os.ReadFile(f.Path)
	if f.Path == "" || errors.Is(err, fs.ErrNotExist) {
		return Login{}, nil
	}
	if err != nil {
		return Login{}, fmt.Errorf("reading credentials: %w", err)
	}
	secret, err := ParseSecret(f.Path, data)
	if secret == nil {
		return Login{}, err
	}
	login, _ := secret.Find(ctx, repository)
	if !login.Anonymous() {
		return login, nil
	}
	return login, err
}
