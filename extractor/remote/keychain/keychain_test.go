// SPDX-License-Identifier: Apache-2.0

package keychain

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func auth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// secretOf returns a secret with a login for each key, whose user is the key.
func secretOf(keys ...string) []byte {
	auths := map[string]any{}
	for _, key := range keys {
		auths[key] = map[string]string{"username": key, "password": "s3cr3t"}
	}
	text, err := json.Marshal(map[string]any{"auths": auths, "credsStore": "never-run", "credHelpers": map[string]string{"quay.io": "never-run"}})
	if err != nil {
		panic(err)
	}
	return text
}

func TestSecret_LongestPathWins(t *testing.T) {
	for _, test := range []struct{ keys, repository, want string }{
		{"quay.io quay.io/release quay.io/release/aws", "quay.io/release/aws", "quay.io/release/aws"},
		{"quay.io quay.io/release", "quay.io/release/aws", "quay.io/release"},
		{"quay.io quay.io/release", "quay.io/releases/aws", "quay.io"},
		{"quay.io/release", "quay.io/releases", ""},
		{"quay.io/release", "quay.io", ""},
		{"quay.io", "quay.io:5000/a", ""},
		{"quay.io:5000", "quay.io:5000/a", "quay.io:5000"},
		{"https://quay.io/v2/", "quay.io/a", "https://quay.io/v2/"},
		{"http://quay.io/v1/", "quay.io/a", "http://quay.io/v1/"},
		{"https://index.docker.io/v1/", "index.docker.io/library/busybox", "https://index.docker.io/v1/"},
		{"docker.io/library", "index.docker.io/library/busybox", "docker.io/library"},
		{"*.example.com", "a.example.com/b", "*.example.com"},
		{"*.example.com", "a.b.example.com/b", ""},
		{"*.example.com", "example.com/b", ""},
		{"*.example.com a.example.com", "a.example.com/b", "a.example.com"},
		{"*.example.com r*.example.com", "ra.example.com/b", "r*.example.com"},
		{"", "quay.io/a", ""},
	} {
		t.Run(test.keys+" for "+test.repository, func(t *testing.T) {
			secret, err := ParseSecret("Secret a/b", secretOf(strings.Fields(test.keys)...))
			if err != nil {
				t.Fatal(err)
			}
			login, err := secret.Resolve(t.Context(), test.repository)
			if err != nil || login.Username != test.want || login.Anonymous() != (test.want == "") {
				t.Errorf("got %q, %v, want %q", login.Username, err, test.want)
			}
			if test.want != "" && (login.Password != "s3cr3t" || login.Key != test.want || login.Origin != "Secret a/b") {
				t.Errorf("got %s", login)
			}
		})
	}
}

func TestParseSecret_AllKindsOfCredentials(t *testing.T) {
	secret, err := ParseSecret("s", []byte(`{"auths": {
		"a.example.com": {"username": "u", "password": "p"},
		"b.example.com": {"identitytoken": "i"},
		"c.example.com": {"registrytoken": "r"},
		"d.example.com": {"auth": "`+auth("u", "p:with:colons")+`", "username": "other"},
		"e.example.com": {"email": "user@example.com"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]Credentials{
		"a": {Username: "u", Password: "p"}, "b": {IdentityToken: "i"}, "c": {RegistryToken: "r"}, "d": {Username: "u", Password: "p:with:colons"}, "e": {},
	} {
		got, err := secret.Resolve(t.Context(), host+".example.com/x")
		got.Key, got.Origin = "", ""
		if got != want || err != nil {
			t.Errorf("%s: got other credentials", host)
		}
	}
	if keys := strings.Join(secret.Keys(), " "); keys != "a.example.com b.example.com c.example.com d.example.com" {
		t.Errorf("keys: %s", keys)
	}
}

func TestParseSecret_ErrorsDoNotShowSecrets(t *testing.T) {
	for _, text := range []string{
		`s3cr3t`, `{"auths": "s3cr3t"}`, `{"auths": {"quay.io": {"auth": "s3cr3t!"}}}`, `{"auths": {"quay.io": {"auth": "` + base64.StdEncoding.EncodeToString([]byte("s3cr3t")) + `"}}}`, "",
	} {
		_, err := ParseSecret("Secret a/b", []byte(text))
		var wrong *SecretError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "Secret a/b") || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "czNjcjN0") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	both := `{"auths": {"bad.example.com": {"auth": "!"}, "good.example.com": {"auth": "` + auth("u", "p") + `"}}}`
	secret, err := ParseSecret("s", []byte(both))
	var wrong *SecretError
	if !errors.As(err, &wrong) || wrong.Key != "bad.example.com" || len(secret.Keys()) != 1 {
		t.Errorf("got %v, %v", secret.Keys(), err)
	}
}

func TestCredentials_NoFormatShowsAPassword(t *testing.T) {
	l := Credentials{Key: "quay.io", Origin: "a file", Username: "s3cr3t", Password: "s3cr3t", IdentityToken: "s3cr3t", RegistryToken: "s3cr3t"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(verb, l) + fmt.Sprintf(verb, &l) + fmt.Sprintf(verb, []Credentials{l}); strings.Contains(text, "s3cr3t") || strings.Contains(text, "733363") {
			t.Errorf("%s shows the password: %s", verb, text)
		}
	}
	if text := l.String(); text != `the credentials of "quay.io" in a file` || (Credentials{}).String() != "no credentials" {
		t.Error(text)
	}
}

func TestFile_IsReadEachTime(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "auth.json")}
	find := func(want string) {
		t.Helper()
		if login, err := f.Resolve(t.Context(), "quay.io/a"); err != nil || login.Username != want {
			t.Errorf("got %q, %v, want %q", login.Username, err, want)
		}
	}
	find("")
	for _, key := range []string{"quay.io", "quay.io/a"} {
		if err := os.WriteFile(f.Path, secretOf(key), 0o600); err != nil {
			t.Fatal(err)
		}
		find(key)
	}
	if err := os.WriteFile(f.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Resolve(t.Context(), "quay.io/a"); err == nil || !strings.Contains(err.Error(), f.Path) {
		t.Errorf("got %v", err)
	}
	if login, err := (File{}).Resolve(t.Context(), "quay.io/a"); err != nil || !login.Anonymous() {
		t.Errorf("no file: got %v, %v", login, err)
	}
}

type finder func() (Credentials, error)

func (f finder) Resolve(context.Context, string) (Credentials, error) { return f() }

func TestChain_FirstCredentialsWin(t *testing.T) {
	none := finder(func() (Credentials, error) { return Credentials{}, nil })
	fails := finder(func() (Credentials, error) { return Credentials{}, os.ErrPermission })
	has := finder(func() (Credentials, error) { return Credentials{Username: "u"}, nil })
	if login, err := (Chain{none, fails, has}).Resolve(t.Context(), "a/b"); err != nil || login.Username != "u" {
		t.Errorf("got %v, %v", login, err)
	}
	if _, err := (Chain{fails, none}).Resolve(t.Context(), "a/b"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if login, err := (Chain{none, (*Secret)(nil)}).Resolve(t.Context(), "a/b"); err != nil || !login.Anonymous() {
		t.Errorf("got %v, %v", login, err)
	}
}

// helper is a credential helper: a program that reads the host from its standard input.
const helper = `#!/bin/sh
read host
echo "{\"ServerURL\": \"$host\", \"Username\": \"helped\", \"Secret\": \"s3cr3t\"}"
`

func TestSystem_ReadsFilesAndHelpersOfContainerTools(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		".docker/config.json": `{"auths": {"hub.example.com": {"auth": "` + auth("docker", "p") + `"}, "https://index.docker.io/v1/": {"auth": "` + auth("hub", "p") + `"}}}`,
		"run/containers/auth.json": `{"auths": {"quay.io/release": {"auth": "` + auth("podman", "p") + `"}},
			"credHelpers": {"helped.example.com": "test"}}`,
		"only.json": `{"auths": {"quay.io": {"auth": "` + auth("only", "p") + `"}}}`,
	} {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": home, "XDG_RUNTIME_DIR": home + "/run", "XDG_CONFIG_HOME": home + "/config", "DOCKER_CONFIG": "", "REGISTRY_AUTH_FILE": "",
		"PATH": home + ":" + os.Getenv("PATH"), "CONTAINERS_REGISTRIES_CONF": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	find := func(s System, repository, want string) {
		t.Helper()
		if login, err := s.Resolve(t.Context(), repository); err != nil || login.Username != want {
			t.Errorf("%s: got %q, %v, want %q", repository, login.Username, err, want)
		}
	}
	find(System{}, "quay.io/release/aws", "podman")
	find(System{}, "quay.io/releases", "")
	find(System{}, "hub.example.com/a", "docker")
	find(System{}, "index.docker.io/library/busybox", "hub")
	find(System{}, "helped.example.com/a/b", "helped")
	find(System{AuthFile: home + "/only.json"}, "quay.io/release/aws", "only")
	t.Setenv("REGISTRY_AUTH_FILE", home+"/only.json")
	find(System{}, "quay.io/release/aws", "only")
	find(System{}, "hub.example.com/a", "")
	t.Setenv("REGISTRY_AUTH_FILE", "")
	for repository, want := range map[string]string{
		"quay.io/release/aws":    `the credentials of "quay.io/release" in ` + home + "/run/containers/auth.json",
		"hub.example.com/a":      `the credentials of "hub.example.com" in ` + home + "/.docker/config.json",
		"helped.example.com/a/b": `the credentials of "helped.example.com/a/b" in a credential helper`,
	} {
		if c, err := (System{}).Resolve(t.Context(), repository); err != nil || c.String() != want {
			t.Errorf("%s: got %s, %v, want %s", repository, c, err, want)
		}
	}
}

// FuzzSecret parses secrets: no input causes a panic or appears in an error, and credentials are found only under a
// path of the repository.
func FuzzSecret(f *testing.F) {
	f.Add(secretOf("quay.io", "quay.io/a", "*.example.com", "https://index.docker.io/v1/"), "quay.io/a/b")
	f.Add([]byte(`{"auths": {"": {"username": "u"}}}`), "")
	f.Add([]byte(`{"auths": {"*": {"auth": "!"}}}`), "x.y/z")
	f.Fuzz(func(t *testing.T, text []byte, repository string) {
		secret, _ := ParseSecret("s", text)
		login, err := secret.Resolve(t.Context(), repository)
		if err != nil {
			t.Fatal(err)
		}
		if key := normalized(login.Key); !login.Anonymous() && !strings.Contains(key, "*") && !strings.HasPrefix(normalized(repository)+"/", key+"/") {
			t.Errorf("%q has the credentials of %q", repository, login.Key)
		}
	})
}
