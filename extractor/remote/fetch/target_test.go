// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
	"github.com/capi-installer/capi-installer/test/registry"
)

// layerByLibrary reads the layer with the library that pushes images.
func (s *stage) layerByLibrary() error {
	s.Helper()
	at, err := name.NewDigest(s.reference)
	must(s.T, err)
	target, err := s.puller.Target(s.Context(), at)
	must(s.T, err)
	layer, err := ggcr.Layer(at.Context().Digest(s.layer.Digest.String()), ggcr.WithContext(s.Context()), ggcr.WithTransport(target))
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

func TestTarget_RejectsAPrivateAddress(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"by a redirect":  {Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"https://inside.example.com:8443/x"}}},
		"by a challenge": {Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="https://inside.example.com:8443/token",service="x"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 0, registry.Options{})
			d := s.renamed(nil)
			s.own.Fail(fault)
			err := s.layerByLibrary()
			if _, refused := errors.AsType[*transport.AddressError](err); !refused || !slices.Equal(d.refused, []string{"inside.example.com:8443"}) {
				t.Errorf("got %v, rejected %v", err, d.refused)
			}
			s.conf(insecure + "[[registry]]\nlocation = \"inside.example.com:8443\"\n") // now the configuration names the host
			err = s.layerByLibrary()
			if err == nil || !strings.Contains(err.Error(), "does not connect") {
				t.Errorf("got %v, want the address to be accepted", err)
			}
		})
	}
}

func TestTarget_DropsCredentialsForAnotherHost(t *testing.T) {
	s := newStage(t, 0, registry.Options{Username: "robot", Password: "s3cr3t"})
	store := registry.New(t, registry.Options{})
	s.renamed(map[string]string{"store.example.com:5000": store.Host()})
	s.access.Keychain = robot{}
	var got http.Header
	store.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		got = req.Header.Clone()
		_, _ = w.Write(s.content)
	}})
	authorized := false
	s.own.Fail(registry.Fault{Path: "/blobs/", Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		authorized = req.Header.Get("Authorization") != ""
		http.Redirect(w, req, "http://store.example.com:5000/signed?signature=x", http.StatusTemporaryRedirect)
	}})
	must(t, s.layerByLibrary())
	if !authorized || got == nil || got.Get("Authorization") != "" || got.Get("Cookie") != "" {
		t.Errorf("credentials sent to the registry: %t; the other host got %v", authorized, got)
	}
}

// challenges are forms of a challenge that RFC 9110 allows.
var challenges = map[string]func(realm string) []string{
	"quoted":              func(realm string) []string { return []string{`Bearer realm="` + realm + `",service="registry"`} },
	"lower case":          func(realm string) []string { return []string{`bearer realm="` + realm + `",service="registry"`} },
	"names in upper case": func(realm string) []string { return []string{`Bearer Realm="` + realm + `",SERVICE="registry"`} },
	"an unquoted value":   func(realm string) []string { return []string{`Bearer realm="` + realm + `",service=registry`} },
	"spaces":              func(realm string) []string { return []string{`Bearer  realm = "` + realm + `" , service = "registry"`} },
	"escapes": func(realm string) []string {
		return []string{`Bearer realm="` + strings.Replace(realm, "token", `t\oken`, 1) + `",service="registry"`}
	},
	"after another scheme": func(realm string) []string {
		return []string{`Negotiate`, `Bearer realm="` + realm + `",service="registry"`}
	},
	"before another scheme": func(realm string) []string {
		return []string{`Bearer realm="` + realm + `",service="registry"`, `Basic realm="x"`}
	},
}

// robot is a keychain with the same user for all registries.
type robot struct{}

func (robot) Resolve(context.Context, string) (keychain.Credentials, error) {
	return keychain.Credentials{Username: "robot", Password: "s3cr3t"}, nil
}

// tokenServer makes the registry require tokens for the scopes of each request. The registry serves them
// itself.
func (s *stage) tokenServer(challenge func(realm string) []string) (scopes func() []string) {
	var mu sync.Mutex
	asked := map[string]bool{}
	s.own.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		query := req.URL.Query()
		token, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
		repository, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/blobs/")
		repository, _, _ = strings.Cut(repository, "/manifests/")
		needs := "repository:" + repository + ":pull"
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			needs += ",push"
		}
		user, password, _ := req.BasicAuth()
		switch {
		case req.URL.Path == "/token" && query.Get("service") == "registry" && user == "robot" && password == "s3cr3t":
			mu.Lock()
			defer mu.Unlock()
			asked[strings.Join(query["scope"], " ")] = true
			_, _ = fmt.Fprintf(w, `{"token": %q}`, base64.RawURLEncoding.EncodeToString([]byte(strings.Join(query["scope"], " "))))
		case req.Method == http.MethodHead && len(token) > 0:
			http.NotFound(w, req) // so that blobs are written
		case strings.Contains(string(token), needs), req.URL.Path == "/v2/" && len(token) > 0:
			next.ServeHTTP(w, req)
		default:
			for _, value := range challenge("http://" + s.own.Host() + "/token") {
				w.Header().Add("WWW-Authenticate", value)
			}
			w.WriteHeader(http.StatusUnauthorized)
		}
	}})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(asked))
	}
}

// TestClient_Challenges: a challenge that works for a digest works for a tag and for writes.
func TestClient_Challenges(t *testing.T) {
	for form, challenge := range challenges {
		t.Run(form, func(t *testing.T) {
			s := newStage(t, 0, registry.Options{})
			image := registry.MustImage(t, registry.Layer{Txtar: "-- tagged --\n"})
			_, err := s.own.PushTag("release/tagged", "v1", image)
			must(t, err)
			s.access.Keychain = robot{}
			s.tokenServer(challenge)
			must(t, s.pull())
			want, err := image.Digest()
			must(t, err)
			tag := s.tag("tagged:v1")
			if got, err := s.puller.Resolve(t.Context(), tag, 4<<20); err != nil || got != want {
				t.Errorf("the tag: got %s, %v, want %s", got, err, want)
			}
			must(t, s.push(tag.Context().Tag("v2"), image))
		})
	}
}

// tag returns a tag in the registry.
func (s *stage) tag(path string) name.Tag {
	s.Helper()
	tag, err := name.NewTag(s.own.Host() + "/release/" + path)
	must(s.T, err)
	return tag
}

// push writes an image with a library.
func (s *stage) push(tag name.Tag, image v1.Image) error {
	target, err := s.puller.Target(s.Context(), tag)
	if err != nil {
		return err
	}
	return ggcr.Write(tag, image, ggcr.WithContext(s.Context()), ggcr.WithTransport(target))
}

// mountable is an image with layers that another repository of the registry has.
type mountable struct {
	v1.Image
	from name.Reference
}

func (m mountable) Layers() (layers []v1.Layer, err error) {
	own, err := m.Image.Layers()
	for _, layer := range own {
		layers = append(layers, &ggcr.MountableLayer{Layer: layer, Reference: m.from})
	}
	return layers, err
}

func TestTarget_ScopesOfTokens(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	image := registry.MustImage(t, registry.Layer{Txtar: "-- mounted --\n"})
	_, err := s.own.PushTag("release/base", "v1", image)
	must(t, err)
	s.access.Keychain = robot{}
	scopes := s.tokenServer(challenges["quoted"])
	must(t, s.pull())
	must(t, s.push(s.tag("copy:v1"), mountable{image, s.tag("base:v1")}))
	want := []string{
		"repository:release/aws:pull", "repository:release/copy:pull,push", "repository:release/copy:pull,push repository:release/base:pull",
	}
	if got := scopes(); !slices.Equal(got, want) {
		t.Errorf("got tokens for %q, want %q", got, want)
	}
}

// A registry that does not require credentials for reads can require them for writes.
func TestTarget_CredentialsForWritesOnly(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.access.Keychain = robot{}
	s.own.Fail(registry.Fault{Serve: authorize(`Basic realm="x"`, func(req *http.Request) bool {
		user, password, _ := req.BasicAuth()
		return req.Method == http.MethodGet || req.Method == http.MethodHead || user == "robot" && password == "s3cr3t"
	})})
	must(t, s.pull())
	must(t, s.push(s.tag("new:v1"), registry.MustImage(t, registry.Layer{Txtar: "-- pushed --\n"})))
}

// A token can expire during a push: the body of the request is sent again.
func TestTarget_RenewsTokens(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.access.Keychain = robot{}
	var mu sync.Mutex
	expired := map[string]bool{}
	tokens := 0
	s.own.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		mu.Lock()
		token := req.Header.Get("Authorization")
		if req.Method == http.MethodPatch && len(expired) == 0 {
			expired[token] = true
		}
		valid := strings.HasPrefix(token, "Bearer ") && !expired[token]
		if req.URL.Path == "/token" {
			tokens++
		}
		answer := fmt.Sprintf(`{"token": "t%d"}`, tokens)
		mu.Unlock()
		switch {
		case req.URL.Path == "/token":
			_, _ = io.WriteString(w, answer)
		case valid:
			next.ServeHTTP(w, req)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+s.own.Host()+`/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}})
	must(t, s.push(s.tag("new:v1"), registry.MustImage(t, registry.Layer{Txtar: "-- pushed --\n"})))
	if len(expired) != 1 || tokens < 2 {
		t.Errorf("%d tokens expired, %d were requested", len(expired), tokens)
	}
}

// An upload may take longer than Pace.Silence, but not without progress.
func TestTarget_SlowUploads(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	must(t, s.pull())
	s.puller.Pace.Silence = time.Second
	target, err := s.puller.Target(t.Context(), s.tag("slow:v1"))
	must(t, err)
	s.own.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			w.WriteHeader(http.StatusCreated)
		}
	}})
	for name, test := range map[string]struct {
		pauses time.Duration
		want   error
	}{
		"with progress": {100 * time.Millisecond, nil}, "without progress": {5 * time.Second, errNoResponse},
	} {
		t.Run(name, func(t *testing.T) {
			body, writer := io.Pipe()
			go func() {
				for range 20 {
					if _, err := writer.Write(make([]byte, 10)); err != nil {
						return
					}
					select {
					case <-time.After(test.pauses):
					case <-t.Context().Done():
					}
				}
				writer.Close()
			}()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://"+s.own.Host()+"/v2/release/slow/blobs/uploads/1", body)
			must(t, err)
			resp, err := target.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
