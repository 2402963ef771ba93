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
