// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.podman.io/image/v5/types"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/capi-installer/capi-installer/test/registry"
	"github.com/capi-installer/capi-installer/test/registry/distribution"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/docker/go-events.(*Broadcaster).run")) // the distribution project's registry never stops it
}

// stage is an image in several registries, and a client whose registries.conf makes the second and later ones mirrors of the first.
type stage struct {
	*testing.T
	own       *registry.Registry
	mirrors   []*registry.Registry
	reference string
	layer     v1.Descriptor
	content   []byte // of the layer
	client    *Client
	settings  Settings

	mu     sync.Mutex
	passed []*Error
}

// incompressible returns a layer of about 300 KiB.
func incompressible() string {
	var out bytes.Buffer
	sum := sha256.Sum256(nil)
	for range 10_000 {
		sum = sha256.Sum256(sum[:])
		out.Write(sum[:])
	}
	return out.String()
}

func newStage(t *testing.T, mirrors int, options registry.Options) *stage {
	t.Helper()
	s := &stage{T: t, own: registry.New(t, options)}
	image := registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File("data", incompressible())}, Compression: registry.None})
	s.reference = s.own.MustPush(t, "release/aws", image)
	manifest, err := image.Manifest()
	must(t, err)
	s.layer = manifest.Layers[0]
	s.content = registry.Content(t, image, 0)
	for n := range mirrors {
		s.mirrors = append(s.mirrors, registry.New(t, registry.Options{Address: fmt.Sprintf("127.0.0.%d:0", n+2)}))
		s.mirrors[n].MustPush(t, "mirrored/aws", image)
		s.mirrors[n].Reset()
	}
	s.own.Reset()
	s.rules("")
	s.client = &Client{
		Settings: func(context.Context) (Settings, error) { return s.settings, nil }, Retry: Retry{Backoff: time.Millisecond},
		OnSourceFailure: func(_ context.Context, err *Error) { s.mu.Lock(); s.passed = append(s.passed, err); s.mu.Unlock() },
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rules writes rules with the mirrors, and additional lines for the registry itself.
func (s *stage) rules(more string) {
	conf := "[[registry]]\nlocation = \"" + s.own.Host() + "/release\"\n" + more + "\n"
	for _, m := range s.mirrors {
		conf += "[[registry.mirror]]\nlocation = \"" + m.Host() + "/mirrored\"\n"
	}
	s.conf(conf)
}

func (s *stage) conf(conf string) {
	s.Helper()
	s.settings.RegistriesConf = s.file(conf)
	must(s.T, s.settings.Check())
}

func (s *stage) file(content string) string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "file")
	must(s.T, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// login makes the client log in to a host.
func (s *stage) login(host, password string) {
	s.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("robot:" + password))
	s.settings.AuthFiles = []string{s.file(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth))}
}

// pull reads the manifest and the layer, and checks both.
func (s *stage) pull() error {
	s.Helper()
	return s.pullWith(s.Context())
}

func (s *stage) pullWith(ctx context.Context) error {
	s.Helper()
	image, err := s.client.Open(ctx, s.reference)
	if err != nil {
		return err
	}
	defer image.Close()
	if _, err := image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, 4<<20); err != nil {
		return err
	}
	var got []byte
	err = image.Blob(ctx, "layer 1 of 1", s.layer, func(body io.Reader) (err error) {
		got, err = io.ReadAll(body)
		return err
	})
	if err == nil && !bytes.Equal(got, s.content) {
		s.Error("the layer has other bytes")
	}
	return err
}

func TestClient_SkipsAndReportsABrokenMirror(t *testing.T) {
	for name, test := range map[string]struct {
		fault registry.Fault
		says  string
		step  string
	}{
		"no manifest":                  {registry.Fault{Path: "/manifests/", Status: 404}, "404 Not Found (MANIFEST_UNKNOWN)", "manifest"},
		"no manifest, in other words":  {registry.Fault{Path: "/manifests/", Status: 404, Body: []byte("not here")}, "404 Not Found", "manifest"},
		"no layer":                     {registry.Fault{Path: "/blobs/", Status: 404}, "404 Not Found", "layer 1 of 1"},
		"credentials required":         {registry.Fault{Status: 401}, "401 Unauthorized", "manifest"},
		"forbidden":                    {registry.Fault{Status: 403}, "403 Forbidden", "manifest"},
		"internal server error":        {registry.Fault{Status: 500}, "500 Internal Server Error", "manifest"},
		"too many requests":            {registry.Fault{Status: 429, Header: http.Header{"Retry-After": {"0"}}}, "429 Too Many Requests", "manifest"},
		"another manifest":             {registry.Fault{Path: "/manifests/", Body: []byte("{}")}, "digest mismatch", "manifest"},
		"another layer":                {registry.Fault{Path: "/blobs/", Body: bytes.Repeat([]byte("x"), 1000)}, "size mismatch: received 1000 bytes", "layer 1 of 1"},
		"login page":                   {registry.Fault{Path: "/manifests/", Body: []byte("<html>log in</html>"), Header: http.Header{"Content-Type": {"text/html"}}}, "an HTML page", "manifest"},
		"circular redirects":           {registry.Fault{Status: 307, Header: http.Header{"Location": {"/v2/again"}}}, "redirects", "manifest"},
		"invalid token realm":          {registry.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="x"`}}}, "x", "manifest"},
		"redirect to a private server": {registry.Fault{Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"https://169.254.169.254/x"}}}, "link-local", "layer 1 of 1"},
		"redirect to a private name":   {registry.Fault{Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"https://10.1.2.3/x"}}}, "private", "layer 1 of 1"},
		"a token server without JSON":  {registry.Fault{Serve: tokenServer("s3cr3t-token")}, "invalid response", "manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.mirrors[0].Fail(test.fault)
			must(t, s.pull())
			if len(s.passed) == 0 {
				t.Fatal("no failure was reported")
			}
			e := s.passed[0]
			if e.Host != s.mirrors[0].Host() || e.Image != s.reference || e.Step != test.step || !strings.Contains(e.Error(), test.says) || strings.Contains(e.Error(), "s3cr3t") {
				t.Errorf("got %v (%+v), want %q in step %s", e, e, test.says, test.step)
			}
		})
	}
}

// tokenServer requires a token, and is the token server with a response.
func tokenServer(token string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		switch {
		case req.URL.Path == "/token":
			_, _ = io.WriteString(w, token)
		case req.Header.Get("Authorization") == "Bearer abc":
			next.ServeHTTP(w, req)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+req.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

func TestClient_AsksABrokenMirrorLastFromThenOn(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"truncated": {Path: "/blobs/", CutAfter: 10}, "failing": {Status: 503}, "silent": {Delay: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.client.Pace.Silence = time.Second
			s.mirrors[0].Fail(fault)
			must(t, s.pull())
			s.mirrors[0].Reset()
			for range 3 {
				must(t, s.pull())
			}
			if paths := s.mirrors[0].Paths(); len(paths) > 0 {
				t.Errorf("requests to the mirror: %v", paths)
			}
		})
	}
}

func TestClient_AsksMirrorsInOrderThenTheRegistry(t *testing.T) {
	s := newStage(t, 2, registry.Options{})
	must(t, s.pull())
	if len(s.mirrors[0].Paths()) != 3 || len(s.mirrors[1].Paths()) != 0 || len(s.own.Paths()) != 0 {
		t.Errorf("requests: %v, %v, %v", s.mirrors[0].Paths(), s.mirrors[1].Paths(), s.own.Paths())
	}
	s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", Status: 404}) // a mirror with a part of the image
	s.mirrors[1].Fail(registry.Fault{Status: 500})
	must(t, s.pull())
	if s.own.Requests()[registry.Key{Method: "GET", Kind: "blobs"}] != 1 {
		t.Errorf("requests to the registry: %v, want the layer", s.own.Paths())
	}
}

func TestClient_NeverContactsABlockedRegistry(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.rules("blocked = true")
	must(t, s.pull())
	s.mirrors[0].Fail(registry.Fault{Status: 404})
	err := s.pull()
	if e, ok := errors.AsType[*Error](err); !ok || e.Host != s.mirrors[0].Host() || e.Status != 404 {
		t.Errorf("got %v", err)
	}
	for _, location := range []string{s.own.Host(), "127.0.0.1"} { // the nodes' library: a host contains its ports
		s.conf("[[registry]]\nlocation = \"" + location + "\"\nblocked = true\n")
		if _, blocked := errors.AsType[*BlockedError](s.pull()); !blocked {
			t.Errorf("the registry is not blocked by %s", location)
		}
	}
	if len(s.own.Requests()) > 0 {
		t.Errorf("requests to the blocked registry: %v", s.own.Requests())
	}
}

func TestClient_ReportsTheErrorsOfAllSources(t *testing.T) {
	s := newStage(t, 2, registry.Options{})
	s.mirrors[0].Fail(registry.Fault{Status: 403})
	s.mirrors[1].Fail(registry.Fault{Path: "/manifests/", Body: []byte("x")})
	s.own.Fail(registry.Fault{Path: "/manifests/", Status: 503})
	err := s.pull()
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %v, want three errors", err)
	}
	for n, want := range []string{"from " + s.mirrors[0].Host(), "digest mismatch", "503 Service Unavailable"} {
		if !strings.Contains(lines[n], want) {
			t.Errorf("got %s, want it to contain %q", lines[n], want)
		}
	}
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "manifests"}]; n != 4 {
		t.Errorf("%d attempts at the source with a retryable error, want 4", n)
	}
	if n := s.mirrors[0].Requests()[registry.Key{Method: "GET", Kind: "ping"}]; n != 1 {
		t.Errorf("%d attempts at the source with a terminal error, want 1", n)
	}
}

// A broken connection, and a silent one, are continued: the layer is not read again from its start.
func TestClient_ContinuesABlob(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"broken at the start": {Path: "/blobs/", CutAfter: 1, Times: 1}, "broken in the middle": {Path: "/blobs/", CutAfter: 200_000, Times: 1},
		"silent in the middle": {Path: "/blobs/", Chunk: 200_000, Pause: time.Minute, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			reg := distribution.New(t, distribution.Options{Username: "robot", Password: "s3cr3t"})
			s := newStage(t, 0, registry.Options{})
			image := registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File("data", incompressible())}, Compression: registry.None})
			s.reference = reg.Push(t, "release/aws", image)
			s.login(reg.Host(), "s3cr3t")
			s.client.Pace.Silence = 3 * time.Second
			reg.Fail(fault)
			meter := &Meter{}
			must(t, s.pullWith(WithMeter(t.Context(), meter)))
			if extra := meter.Received.Load() - s.layer.Size; extra > 2000 {
				t.Errorf("%d bytes more than the layer", extra)
			}
		})
	}
}

// scale divides the times in the tests of stalls.
const scale = 30

// short sets the default times divided by scale.
func (s *stage) short() {
	p := Pace{}.orDefaults()
	s.client.Pace = Pace{Silence: p.Silence / scale, Detour: p.Detour / scale, Rate: p.Rate * scale}
}

func TestClient_LeavesASilentOrSlowMirror(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"silent before the response":  {Delay: time.Minute},
		"silent in a manifest":        {Path: "/manifests/", Pause: time.Minute, Chunk: 10},
		"silent in a layer":           {Path: "/blobs/", Pause: time.Minute, Chunk: 10},
		"silent in a layer, later on": {Path: "/blobs/", Pause: time.Minute, Chunk: 100 << 10},
		"a trickle":                   {Path: "/blobs/", Pause: 100 * time.Millisecond, Chunk: 100},
		"bursts":                      {Path: "/blobs/", Pause: 400 * time.Millisecond, Chunk: 4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.short()
			s.mirrors[0].Fail(fault)
			start := time.Now()
			must(t, s.pull())
			if took := time.Since(start) * scale; took > 60*time.Second+longTest {
				t.Errorf("took %s, want at most 60 s", took)
			}
			if len(s.passed) != 1 || !strings.Contains(s.passed[0].Error(), "timed out") {
				t.Errorf("passed %v", s.passed)
			}
		})
	}
}

// longTest allows for a busy machine: the tests measure a fraction of the real time.
const longTest = 60 * time.Second

// Silence is a fault, slowness is not: the only source may take as long as it sends, here more than all limits of time.
func TestClient_ReadsASteadySlowOnlySource(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.short()
	s.own.Fail(registry.Fault{Path: "/blobs/", Pause: 100 * time.Millisecond, Chunk: 8 << 10}) // 300 KiB in 4 s, 120 s at the scale
	start := time.Now()
	must(t, s.pull())
	if took := time.Since(start); took < 2*s.client.Pace.orDefaults().Detour {
		t.Errorf("took only %s", took)
	}
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 1 {
		t.Errorf("%d requests for the layer, want 1", n)
	}
}

// A slow mirror is the last source if the registry of the image fails.
func TestClient_ReturnsToASlowMirror(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.short()
	s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", Pause: 100 * time.Millisecond, Chunk: 16 << 10})
	s.own.Fail(registry.Fault{Status: 404})
	must(t, s.pull())
}

func TestClient_FailsIfAllSourcesAreSilent(t *testing.T) {
	s := newStage(t, 2, registry.Options{})
	s.short()
	for _, r := range append(s.mirrors, s.own) {
		r.Fail(registry.Fault{Path: "/manifests/", Delay: time.Minute})
	}
	start := time.Now()
	err := s.pull()
	if took := time.Since(start) * scale; took > 90*time.Second+longTest {
		t.Errorf("took %s, want at most 90 s", took)
	}
	if err == nil || strings.Count(err.Error(), "timed out") != 3 {
		t.Errorf("got %v, want three timeouts", err)
	}
}

// TestClient_ManyImagesBehindSilentMirrors reads as many images at once as a release has: together they wait no longer than one.
func TestClient_ManyImagesBehindSilentMirrors(t *testing.T) {
	s := newStage(t, 2, registry.Options{})
	s.short()
	for _, r := range s.mirrors {
		r.Fail(registry.Fault{Delay: time.Minute})
	}
	start := time.Now()
	var all errgroup.Group
	for range 20 {
		all.Go(s.pull)
	}
	must(t, all.Wait())
	if took := time.Since(start) * scale; took > 60*time.Second+longTest {
		t.Errorf("took %s, want at most 60 s", took)
	}
	start = time.Now()
	must(t, s.pull()) // now the mirrors are tried last
	if took := time.Since(start); took > s.client.Pace.Silence {
		t.Errorf("another image took %s", took)
	}
}

// A transmission error is as likely as a wrong copy.
func TestClient_ReadsOtherBytesOnceMore(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	flipped := append([]byte{}, s.content...)
	flipped[1000] ^= 1
	s.own.Fail(registry.Fault{Path: "/blobs/", Body: flipped, Times: 1})
	must(t, s.pull())
	s.own.Reset()
	s.own.Fail(registry.Fault{Path: "/blobs/", Body: flipped})
	if err := s.pull(); !errors.As(err, new(*DigestError)) {
		t.Errorf("got %v", err)
	}
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 2 {
		t.Errorf("%d requests for the layer, want 2", n)
	}
}

// An error of the reader counts only for verified bytes, and nil ends the request.
func TestBlob_ErrorsOfItsReader(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		change bool
		err    error
		want   any
	}{
		"verified": {false, refused, nil}, "other bytes": {true, refused, new(*DigestError)}, "enough": {true, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 0, registry.Options{})
			if test.change {
				s.own.Fail(registry.Fault{Path: "/blobs/", Body: append(bytes.Clone(s.content[:len(s.content)-1]), s.content[0]+1)})
			}
			image, err := s.client.Open(t.Context(), s.reference)
			must(t, err)
			defer image.Close()
			err = image.Blob(t.Context(), "layer", s.layer, func(body io.Reader) error {
				_, _ = io.CopyN(io.Discard, body, 10)
				return test.err
			})
			if test.want == nil && !errors.Is(err, test.err) || test.want != nil && !errors.As(err, test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestClient_TrustsTheCAOfItsHost(t *testing.T) {
	ca, err := registry.NewCA()
	must(t, err)
	other, err := registry.NewCA()
	must(t, err)
	s := newStage(t, 0, registry.Options{CA: ca})
	for name, test := range map[string]struct {
		cas  map[string]string
		good bool
	}{
		"its CA": {map[string]string{s.own.Host(): string(ca.PEM())}, true}, "for all hosts": {map[string]string{"": string(ca.PEM())}, true},
		"another CA": {map[string]string{s.own.Host(): string(other.PEM())}, false}, "of another host": {map[string]string{"quay.io": string(ca.PEM())}, false}, "none": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.settings.CAs = test.cas
			s.own.Reset()
			switch err := s.pull(); {
			case (err == nil) != test.good:
				t.Errorf("got %v", err)
			case err != nil && (!strings.Contains(err.Error(), "to the directory of the host in certs.d") || len(s.own.Requests()) > 0):
				t.Errorf("got %v after %v; want advice, and no requests", err, s.own.Requests())
			}
		})
	}
	s.settings.CAs = nil
	s.conf("[[registry]]\nlocation = \"" + s.own.Host() + "\"\ninsecure = true\n")
	must(t, s.pull())
}

func TestClient_SendsPasswordsToTheirRegistryOnly(t *testing.T) {
	s := newStage(t, 1, registry.Options{Username: "robot", Password: "s3cr3t"})
	s.login(s.own.Host(), "s3cr3t")
	var sent []string
	s.mirrors[0].Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		sent = append(sent, req.Header.Get("Authorization"))
		w.Header().Set("WWW-Authenticate", `Basic realm="mirror"`)
		w.WriteHeader(http.StatusUnauthorized)
	}})
	must(t, s.pull())
	for _, header := range sent {
		if decoded, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(header, "Basic ")); strings.Contains(string(decoded), "s3cr3t") {
			t.Error("a mirror was sent credentials of another registry")
		}
	}
	s.login(s.own.Host(), "old-s3cr3t")
	if err := s.pull(); err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), "check the credentials in the auth file") {
		t.Errorf("got %v, want the place of the rejected credentials, not their content", err)
	}
	s.login(s.own.Host(), "s3cr3t") // rotated, without a restart
	must(t, s.pull())
}

// TestRedirect_DropsCredentialsForAnotherHost: net/http drops them for another host, but not for another port of the host.
func TestRedirect_DropsCredentialsForAnotherHost(t *testing.T) {
	for address, reached := range map[string]bool{"127.0.0.9:0": true, "127.0.0.1:0": false} {
		t.Run(address, func(t *testing.T) {
			s := newStage(t, 0, registry.Options{Username: "robot", Password: "s3cr3t"})
			s.login(s.own.Host(), "s3cr3t")
			store := registry.New(t, registry.Options{Address: address})
			var got []string
			store.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
				got = append(got, req.Header.Get("Authorization"))
				_, _ = w.Write(s.content)
			}})
			s.own.Fail(registry.Fault{Path: "/blobs/", Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
				http.Redirect(w, req, "http://"+store.Host()+"/signed?signature=s3cr3t", http.StatusTemporaryRedirect)
			}})
			err := s.pull()
			if (err == nil) != reached || reached != (len(got) > 0) || slices.ContainsFunc(got, func(header string) bool { return header != "" }) {
				t.Errorf("got %v; the other host got %q", err, got)
			}
			store.Heal()
			store.Fail(registry.Fault{Status: 403})
			if err := s.pull(); err == nil || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v, want an error without the query", err)
			}
		})
	}
}

// TestGuard_OtherHosts: a registry with TLS gets no redirect without TLS.
func TestGuard_OtherHosts(t *testing.T) {
	g := &guard{source: &source{}, proxy: Settings{}.proxy(), meter: &Meter{}}
	g.source.pull.Reference = named(t, "quay.io/release/aws:v1")
	for text, want := range map[string]bool{
		"https://quay.io/v2/": true, "http://quay.io/v2/": false, "https://cdn.example.com/x": true, "http://cdn.example.com/x": false,
		"https://10.1.2.3/x": false, "https://[fe80::1]/x": false, "https://169.254.169.254/x": false, "https://93.184.216.34/x": true,
	} {
		if _, err := g.check(parsed(t, text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	g.credentials = true
	for text, want := range map[string]bool{"https://quay.io:8443/x": false, "https://quay.io:8443/token?service=quay.io": true, "https://cdn.quay.io/x": true} {
		if _, err := g.check(parsed(t, text)); (err == nil) != want {
			t.Errorf("with credentials, %s: %v", text, err)
		}
	}
}

func TestToken_OneForAnImage(t *testing.T) {
	reg := distribution.New(t, distribution.Options{Username: "robot", Password: "s3cr3t"})
	s := newStage(t, 0, registry.Options{})
	image := registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File("data", incompressible())}, Compression: registry.None})
	s.reference = reg.Push(t, "release/art", image)
	s.login(reg.Host(), "s3cr3t")
	must(t, s.pull())
	if got := reg.Tokens(); !slices.Equal(got, []string{"repository:release/art:pull"}) {
		t.Errorf("tokens %v", got)
	}
	s.login(reg.Host(), "wr0ng")
	e, ok := errors.AsType[*Error](s.pull())
	if !ok || e.Status != 401 || !strings.Contains(e.Advice, "check the credentials in ") || strings.Contains(e.Error(), "wr0ng") {
		t.Errorf("got %v", e)
	}
}

// TestEach_RejectionIsNoFault: a mirror without signatures stays healthy, and its registry is asked next.
func TestEach_RejectionIsNoFault(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	image, err := s.client.Open(t.Context(), s.reference)
	must(t, err)
	defer image.Close()
	calls := 0
	err = image.Each(t.Context(), "signatures", func(context.Context, types.ImageSource) error {
		calls++
		return &Rejection{errors.New("unsigned")}
	})
	if calls != 2 || strings.Count(err.Error(), "unsigned") != 2 || !s.client.healthy(image.sources[0]) {
		t.Errorf("%d calls, %v", calls, err)
	}
}
