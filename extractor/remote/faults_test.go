// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/test/registry"
)

// pushed returns a registry with one image.
func pushed(t *testing.T, options registry.Options) (reg *registry.Registry, reference string, layer v1.Hash) {
	t.Helper()
	reg = registry.New(t, options)
	image := registry.MustImage(t, shipped(t, aws(manifests)))
	reference = reg.MustPush(t, "providers/aws", image)
	reg.Reset()
	return reg, reference, layerOf(t, image, 0).Digest
}

// fails checks that a fetch fails because of missing or wrong bytes, not because of their content.
func fails(t *testing.T, c *Registry, reference string) error {
	t.Helper()
	bundles, err := c.Fetch(t.Context(), reference)
	if err == nil || bundles != nil || errors.Is(err, extractor.ErrInvalid) {
		t.Fatalf("got %v and %v, want an error other than ErrInvalid", bundles, err)
	}
	e, ok := errors.AsType[*extractor.Error](err)
	if !ok || e.Image != reference {
		t.Errorf("%v does not name the image", err)
	}
	if at, ok := errors.AsType[*fetch.Error](err); !ok || at.Image != reference || at.Host != strings.Split(reference, "/")[0] || at.Step == "" {
		t.Errorf("%v does not name the registry and the step", err)
	}
	return err
}

func TestRegistry_RejectsOtherBytes(t *testing.T) {
	reg, reference, layer := pushed(t, registry.Options{})
	honest := func(path string) []byte {
		t.Helper()
		resp, err := http.Get("http://" + reg.Host() + path) //nolint:noctx // it is a test
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body bytes.Buffer
		if _, err := body.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return body.Bytes()
	}
	manifest := "/v2/providers/aws/manifests/" + strings.Split(reference, "@")[1]
	blob := "/v2/providers/aws/blobs/" + layer.String()
	for _, path := range []string{manifest, blob} {
		right := honest(path)
		if len(right) < 100 {
			t.Fatalf("%s: got %d bytes", path, len(right))
		}
		changed := bytes.Clone(right)
		changed[len(changed)-1] ^= 1
		for name, body := range map[string][]byte{
			"of the same length": changed, "shorter": right[:len(right)-1], "longer": append(bytes.Clone(right), 0), "none": {},
		} {
			t.Run(strings.Split(path, "/")[4]+" "+name, func(t *testing.T) {
				reg.Heal()
				reg.Fail(registry.Fault{Path: path, Body: body})
				err := fails(t, client(t), reference)
				wrong, ok := errors.AsType[*fetch.DigestError](err)
				if !ok || !strings.HasSuffix(path, wrong.Want) {
					t.Errorf("got %v, want a DigestError for %s", err, path)
				}
			})
		}
	}
}

func TestRegistry_ErrorNamesTheLayer(t *testing.T) {
	reg, reference, layer := pushed(t, registry.Options{})
	reg.Fail(registry.Fault{Path: layer.String(), Status: 404})
	err := fails(t, client(t), reference)
	if e, ok := errors.AsType[*extractor.Error](err); !ok || e.Layer != layer.String() {
		t.Errorf("got %v, want the layer %s", err, layer)
	}
}

func TestRegistry_StatusErrorsGiveAdvice(t *testing.T) {
	for _, test := range []struct {
		status, requests int
		says             string
	}{
		{401, 1, "there are no credentials for this repository"}, {403, 1, "there are no credentials for this repository"}, {404, 1, "(MANIFEST_UNKNOWN): check that the repository has this image"},
		{400, 1, "Bad Request"}, {429, 5, "limits the rate of requests"}, {500, 4, "the registry or a proxy before it fails"}, {503, 4, "the registry or a proxy before it fails"},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			reg, reference, _ := pushed(t, registry.Options{})
			reg.Fail(registry.Fault{Path: "/manifests/", Status: test.status, Header: http.Header{"Retry-After": {"0"}}})
			err := fails(t, client(t), reference)
			status, ok := errors.AsType[*fetch.StatusError](err)
			if !ok || status.Status != test.status || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if n := reg.Requests()[registry.Key{Method: "GET", Kind: "manifests"}]; n != test.requests {
				t.Errorf("%d requests for the manifest, want %d", n, test.requests)
			}
		})
	}
}

func TestRegistry_RetriesRetryableErrors(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"a ping that fails":         {Path: "/v2/*", Status: 502, Times: 2},
		"a manifest with 500":       {Path: "/manifests/", Status: 500, Times: 3},
		"a manifest with 429":       {Path: "/manifests/", Status: 429, Times: 1, Header: http.Header{"Retry-After": {"1"}}},
		"a layer with 503":          {Path: "/blobs/", Status: 503, Times: 3},
		"a layer that is cut":       {Path: "/blobs/", CutAfter: 100, Times: 3},
		"a manifest that is cut":    {Path: "/manifests/", CutAfter: 10, Times: 1},
		"a layer that comes slowly": {Path: "/blobs/", Pause: time.Millisecond, Chunk: 50},
	} {
		t.Run(name, func(t *testing.T) {
			reg, reference, _ := pushed(t, registry.Options{})
			reg.Fail(fault)
			fetches(t, client(t), reference, from(aws(manifests), reference))
		})
	}
}

func TestRegistry_LayerThatIsAlwaysTruncated(t *testing.T) {
	reg, reference, layer := pushed(t, registry.Options{})
	reg.Fail(registry.Fault{Path: layer.String(), CutAfter: 1})
	fails(t, client(t), reference)
	if n := reg.Paths()["/v2/providers/aws/blobs/"+layer.String()]; n < 4 {
		t.Errorf("%d attempts, want more", n)
	}
}

func TestRegistry_RetriesEndWithTheContext(t *testing.T) {
	reg, reference, _ := pushed(t, registry.Options{})
	reg.Fail(registry.Fault{Path: "/manifests/", Status: 503, Header: http.Header{"Retry-After": {"30"}}})
	c := client(t)
	c.Client.Retry.Backoff = time.Minute
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		},
		"a deadline before the next attempt": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 10*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := end()
			defer cancel()
			start := time.Now()
			if _, err := c.Fetch(ctx, reference); err == nil {
				t.Error("want an error")
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("it took %s", d)
			}
		})
	}
}

func TestRegistry_Unreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	err = fails(t, client(t), host+"/providers/aws@sha256:"+strings.Repeat("a", 64))
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("got %v, want the error of the network", err)
	}
}

const secret = "s3cr3t-of-the-test"

func TestRegistry_SendsAndHidesCredentials(t *testing.T) {
	reg, reference, _ := pushed(t, registry.Options{Username: "robot", Password: secret})
	c := client(t)
	if err := fails(t, c, reference); !strings.Contains(err.Error(), "401") {
		t.Errorf("without credentials: got %v, want a 401", err)
	}
	c.Client.Settings = as(t, reg.Host(), "robot", secret)
	fetches(t, c, reference, from(aws(manifests), reference))
	c.Client.Settings = as(t, reg.Host(), "robot", secret+"-wrong")
	hidden(t, fails(t, c, reference))
	reg.Fail(registry.Fault{Path: "/blobs/", Status: 500})
	forget(c)
	c.Client.Settings = as(t, reg.Host(), "robot", secret)
	hidden(t, fails(t, c, reference))
}

// hidden checks that an error contains no credentials.
func hidden(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{secret, base64.StdEncoding.EncodeToString([]byte("robot:" + secret))[:20]} {
		if strings.Contains(fmt.Sprintf("%v %+v", err, err), s) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// as makes a client log in to a registry with a user name and a password.
func as(t *testing.T, host, user, password string) func(context.Context) (fetch.Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth.json")
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(context.Context) (fetch.Settings, error) { return fetch.Settings{AuthFiles: []string{file}}, nil }
}

// tokens returns a registry that requires tokens of its own token server, in front of another registry.
func tokens(t *testing.T, behind string, token func(w http.ResponseWriter, r *http.Request)) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			token(w, r)
		case r.Header.Get("Authorization") != "Bearer "+secret:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, "http://"+behind+r.URL.Path+"?signature="+secret, http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, "http://"+behind+r.URL.Path, http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestRegistry_FetchesAndHidesTokens(t *testing.T) {
	reg, reference, layer := pushed(t, registry.Options{Address: "127.0.0.2:0"})
	asked := 0
	host := tokens(t, reg.Host(), func(w http.ResponseWriter, r *http.Request) {
		asked++
		if scope := r.URL.Query().Get("scope"); scope != "repository:providers/aws:pull" {
			t.Errorf("the scope is %q", scope)
		}
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "password" {
			http.Error(w, "no: "+secret, http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"token":%q}`, secret)
	})
	reference = strings.Replace(reference, reg.Host(), host, 1)
	c := client(t)
	c.Client.Settings = as(t, host, "robot", "password")
	fetches(t, c, reference, from(aws(manifests), reference))
	if asked != 1 {
		t.Errorf("%d tokens were asked for, want 1", asked)
	}
	reg.Fail(registry.Fault{Path: layer.String(), Status: 403})
	forget(c)
	hidden(t, fails(t, c, reference)) // the query of the redirect is also a secret
	c.Client.Settings = as(t, host, "robot", "wrong")
	hidden(t, fails(t, c, reference))
	other := tokens(t, reg.Host(), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"refresh_token":%q}`, secret) })
	hidden(t, fails(t, c, strings.Replace(reference, host, other, 1)))
}
