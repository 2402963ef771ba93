// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
	"github.com/capi-installer/capi-installer/test/registry"
)

// layerByLibrary reads the layer with the same library as the build tool does for the layers of a base.
func (s *stage) layerByLibrary(source mirror.Source) error {
	s.Helper()
	at := source.Image.Context().Digest(s.layer.Digest.String())
	layer, err := ggcr.Layer(at, ggcr.WithContext(s.Context()), ggcr.WithTransport(s.access.RoundTripper(source)),
		ggcr.WithAuth(authn.FromConfig(authn.AuthConfig{Username: "robot", Password: "s3cr3t"})))
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

func (s *stage) sourceCalled(host string) mirror.Source {
	s.Helper()
	reference, err := name.NewDigest(strings.Replace(s.reference, s.own.Host(), host, 1))
	must(s.T, err)
	sources, err := s.access.Mirrors.Sources(reference.Name())
	must(s.T, err)
	return sources[len(sources)-1]
}

func TestRoundTripper_RejectsAPrivateAddress(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"by a redirect":  {Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"https://inside.example.com:8443/x"}}},
		"by a challenge": {Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="https://inside.example.com:8443/token",service="x"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 0, registry.Options{})
			d := &redirectDialer{names: map[string]string{"registry.example.com": "93.184.216.34", "inside.example.com": "10.1.2.3"}, connect: map[string]string{"registry.example.com:5000": s.own.Host()}}
			s.network(transport.Options{Dial: d.dial})
			insecure := "[[registry]]\nlocation = \"registry.example.com:5000\"\ninsecure = true\n"
			s.conf(insecure)
			s.own.Fail(fault)
			err := s.layerByLibrary(s.sourceCalled("registry.example.com:5000"))
			if _, refused := errors.AsType[*transport.AddressError](err); !refused || !slices.Equal(d.refused, []string{"inside.example.com:8443"}) {
				t.Errorf("got %v, rejected %v", err, d.refused)
			}
			s.conf(insecure + "[[registry]]\nlocation = \"inside.example.com:8443\"\n") // now the configuration names the host
			err = s.layerByLibrary(s.sourceCalled("registry.example.com:5000"))
			if err == nil || !strings.Contains(err.Error(), "does not connect") {
				t.Errorf("got %v, want the address to be accepted", err)
			}
		})
	}
}

func TestRoundTripper_DropsCredentialsForAnotherHost(t *testing.T) {
	s := newStage(t, 0, registry.Options{Username: "robot", Password: "s3cr3t"})
	store := registry.New(t, registry.Options{})
	d := &redirectDialer{
		names:   map[string]string{"registry.example.com": "93.184.216.34", "store.example.com": "93.184.216.35"},
		connect: map[string]string{"registry.example.com:5000": s.own.Host(), "store.example.com:5000": store.Host()},
	}
	s.network(transport.Options{Dial: d.dial})
	s.conf("[[registry]]\nlocation = \"registry.example.com:5000\"\ninsecure = true\n")
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
	must(t, s.layerByLibrary(s.sourceCalled("registry.example.com:5000")))
	if !authorized || got == nil || got.Get("Authorization") != "" || got.Get("Cookie") != "" {
		t.Errorf("credentials sent to the registry: %t; the other host got %v", authorized, got)
	}
}

func TestRoundTripper_SendsTheNamespaceToAProxy(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	var asked []string
	s.own.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		asked = append(asked, req.URL.Query().Get("ns"))
		next.ServeHTTP(w, req)
	}})
	source := s.sourceCalled(s.own.Host())
	source.Namespace = "registry.example.com"
	must(t, s.layerByLibrary(source))
	if asked = slices.Compact(asked); !slices.Equal(asked, []string{"registry.example.com"}) {
		t.Errorf("requests with the namespaces %q", asked)
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

// TestClient_Challenges: a challenge that works for a digest works for a tag, and for clients with their own authentication.
func TestClient_Challenges(t *testing.T) {
	for form, challenge := range challenges {
		t.Run(form, func(t *testing.T) {
			s := newStage(t, 0, registry.Options{})
			s.own.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				switch {
				case req.URL.Path == "/token" && req.URL.Query().Get("service") == "registry":
					_, _ = io.WriteString(w, `{"token": "abc"}`)
				case req.Header.Get("Authorization") == "Bearer abc":
					next.ServeHTTP(w, req)
				default:
					for _, value := range challenge("http://" + s.own.Host() + "/token") {
						w.Header().Add("WWW-Authenticate", value)
					}
					w.WriteHeader(http.StatusUnauthorized)
				}
			}})
			must(t, s.pull())
			image := registry.MustImage(t, registry.Layer{Txtar: "-- tagged --\n"})
			_, err := s.own.PushTag("release/tagged", "v1", image)
			must(t, err)
			want, err := image.Digest()
			must(t, err)
			tag, err := name.NewTag(s.own.Host() + "/release/tagged:v1")
			must(t, err)
			if got, err := s.puller.Resolve(t.Context(), tag, 4<<20); err != nil || got != want {
				t.Errorf("the tag: got %s, %v, want %s", got, err, want)
			}
			sources, err := s.access.Mirrors.Sources(s.reference)
			must(t, err)
			must(t, s.layerByLibrary(sources[0]))
		})
	}
}
