// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
	"github.com/capi-installer/capi-installer/test/registry"
)

// newExternalStage returns a stage whose registry does not have the layer, and a host that has it at /layer.
func newExternalStage(t *testing.T, options registry.Options) (*stage, *registry.Registry) {
	s := newStage(t, 0, options)
	host := registry.New(t, registry.Options{Address: "127.0.0.9:0"})
	host.Fail(registry.Fault{Path: "/layer", Serve: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { _, _ = w.Write(s.content) }})
	s.layer.URLs = []string{"http://" + host.Host() + "/layer"}
	s.own.Fail(registry.Fault{Path: "/blobs/", Status: http.StatusNotFound})
	return s, host
}

func TestBlob_URLsGetNoCredentials(t *testing.T) {
	s, host := newExternalStage(t, registry.Options{Username: "robot", Password: "s3cr3t"})
	login := keychain.Credentials{Username: "robot", Password: "s3cr3t", RegistryToken: "", Key: "own", Origin: "a test"}
	s.access.Keychain = logins{s.own.Host(): login, host.Host(): login}
	must(t, s.pull())
	var requests []*http.Request
	host.Heal()
	host.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		requests = append(requests, req)
		w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
		w.Header().Add("WWW-Authenticate", `Bearer realm="http://`+host.Host()+`/token"`)
		w.WriteHeader(http.StatusUnauthorized)
	}})
	s.layer.URLs = []string{"http://user:s3cr3t@" + host.Host() + "/layer?signature=s3cr3t"}
	err := s.pull()
	if err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), host.Host()) {
		t.Errorf("got %v, want an error that names the host, without secrets", err)
	}
	for _, req := range requests {
		if req.Header.Get("Authorization") != "" || req.URL.Path != "/layer" {
			t.Errorf("got a request for %s with %q", req.URL.Path, req.Header.Get("Authorization"))
		}
	}
	if len(requests) != 1 {
		t.Errorf("got %d requests, want 1", len(requests))
	}
}

func TestBlob_URLsAreForAbsentBlobs(t *testing.T) {
	s, host := newExternalStage(t, registry.Options{})
	s.own.Heal()
	must(t, s.pull())
	if paths := host.Paths(); len(paths) > 0 {
		t.Errorf("the registry has the layer, and its URL was requested: %v", paths)
	}
}

func TestBlob_URLOfABlockedHost(t *testing.T) {
	s, host := newExternalStage(t, registry.Options{})
	s.conf("[[registry]]\nlocation = \"" + host.Host() + "\"\nblocked = true\n")
	err := s.pull()
	if !errors.Is(err, errBlockedHost) || !strings.Contains(err.Error(), "copy the layer to the registry of the image") {
		t.Errorf("got %v", err)
	}
	if paths := host.Paths(); len(paths) > 0 {
		t.Errorf("a blocked host was contacted: %v", paths)
	}
}

func TestBlob_URLRejectsAPrivateAddress(t *testing.T) {
	s, host := newExternalStage(t, registry.Options{})
	s.renamed(map[string]string{"store.example.com:80": host.Host()})
	s.layer.URLs = []string{"http://store.example.com/layer"}
	must(t, s.pull())
	for name, target := range map[string]string{"itself": "http://inside.example.com/layer", "by a redirect": "http://store.example.com/moved"} {
		s.layer.URLs = []string{target}
		host.Fail(registry.Fault{Path: "/moved", Status: 307, Header: http.Header{"Location": {"http://inside.example.com/layer"}}})
		err := s.pull()
		if !errors.As(err, new(*transport.AddressError)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s.conf(insecure + "[[registry]]\nlocation = \"inside.example.com\"\n") // now the configuration names the host
	if err := s.pull(); errors.As(err, new(*transport.AddressError)) || !strings.Contains(err.Error(), "does not connect") {
		t.Errorf("got %v, want the address to be accepted", err)
	}
}

func TestBlob_BoundsStallsOfURLs(t *testing.T) {
	for name, test := range map[string]struct {
		fault registry.Fault
		sound bool
		most  time.Duration
	}{
		"no answer, then a sound URL":    {registry.Fault{Path: "/stalled", Delay: time.Minute}, true, 60 * time.Second},
		"stalled body, then a sound URL": {registry.Fault{Path: "/stalled", Serve: stallAfter(10)}, true, 60 * time.Second},
		"no answer of all URLs":          {registry.Fault{Path: "/stalled", Delay: time.Minute}, false, 90 * time.Second},
		"stalled bodies of all URLs":     {registry.Fault{Path: "/stalled", Serve: stallAfter(10)}, false, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s, host := newExternalStage(t, registry.Options{})
			s.short()
			stalled := registry.New(t, registry.Options{Address: "127.0.0.8:0"})
			stalled.Fail(test.fault)
			s.layer.URLs = []string{"http://" + stalled.Host() + "/stalled", "http://" + host.Host() + "/layer"}
			if !test.sound {
				s.layer.URLs = []string{"http://" + stalled.Host() + "/stalled", "http://" + stalled.Host() + "/stalled2", "http://" + stalled.Host() + "/stalled3"}
			}
			start := time.Now()
			err := s.pull()
			if took := time.Since(start) * scale; took > test.most+longTest || (err == nil) != test.sound {
				t.Errorf("took %s, %v, want at most %s", took, err, test.most)
			}
		})
	}
}

// stallAfter sends some bytes, and then no more.
func stallAfter(n int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(make([]byte, n))
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}
}

// A blob of unknown size has the size that its source states, so that it can be resumed, and at most the limit.
func TestBlob_UnknownSize(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	size := s.layer.Size
	s.layer.Size = -1
	image, err := s.puller.Open(t.Context(), s.reference)
	must(t, err)
	read := func(limit int64) (got []byte, err error) {
		err = image.Blob(t.Context(), "layer", s.layer, limit, func(body io.Reader) (err error) {
			if stated := body.(interface{ Size() int64 }).Size(); limit >= size && stated != size {
				t.Errorf("the size is %d, want %d", stated, size)
			}
			got, err = io.ReadAll(body)
			return err
		})
		return got, err
	}
	s.own.Fail(registry.Fault{Path: "/blobs/", CutAfter: 100 << 10, Times: 2})
	if got, err := read(size); err != nil || !bytes.Equal(got, s.content) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	s.own.Heal()
	if _, err := read(size - 1); !errors.As(err, new(*SizeError)) {
		t.Errorf("got %v, want a SizeError", err)
	}
}
