// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.uber.org/goleak"

	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
	"github.com/capi-installer/capi-installer/test/registry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/docker/go-events.(*Broadcaster).run")) // the distribution project's registry never stops it
}

// stage is an image in several registries, under the same name, and a client whose rules make the second and later ones
// mirrors of the first.
type stage struct {
	*testing.T
	own       *registry.Registry
	mirrors   []*registry.Registry
	reference string
	layer     v1.Descriptor
	content   []byte // of the layer
	puller    *Client
	access    Settings

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
	s.puller = &Client{
		Settings: func(context.Context) (Settings, error) { return s.access, nil }, Retry: Retry{Backoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond},
		OnSourceFailure: func(_ context.Context, err *Error) { s.mu.Lock(); s.passed = append(s.passed, err); s.mu.Unlock() },
	}
	s.network(transport.Options{})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rules returns rules with these mirrors, and additional lines for the registry itself.
func (s *stage) rules(more string) {
	conf := "[[registry]]\nlocation = \"" + s.own.Host() + "/release\"\n" + more + "\n"
	for _, m := range s.mirrors {
		conf += "[[registry.mirror]]\nlocation = \"" + m.Host() + "/mirrored\"\n"
	}
	s.conf(conf)
}

func (s *stage) conf(conf string) {
	s.Helper()
	rules, err := mirror.Parse(s.TempDir(), []byte(conf))
	must(s.T, err)
	s.access.Mirrors = rules
}

func (s *stage) network(options transport.Options) {
	n := transport.New(options)
	s.Cleanup(n.Close)
	s.access.Transport = n
}

// pull reads the manifest and the layer, and checks both.
func (s *stage) pull() error {
	s.Helper()
	image, err := s.puller.Open(s.Context(), s.reference)
	if err != nil {
		return err
	}
	if _, err := image.Manifest(s.Context(), "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, 4<<20); err != nil {
		return err
	}
	var got []byte
	err = image.Blob(s.Context(), "layer", s.layer, s.layer.Size, func(body io.Reader) (err error) {
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
		"no layer":                     {registry.Fault{Path: "/blobs/", Status: 404}, "404 Not Found", "layer 1 of 1"},
		"credentials required":         {registry.Fault{Status: 401}, "401 Unauthorized", "manifest"},
		"forbidden":                    {registry.Fault{Status: 403}, "403 Forbidden", "manifest"},
		"internal server error":        {registry.Fault{Status: 500}, "500 Internal Server Error", "manifest"},
		"too many requests":            {registry.Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, "429 Too Many Requests", "manifest"},
		"another manifest":             {registry.Fault{Path: "/manifests/", Body: []byte("{}")}, "digest mismatch", "manifest"},
		"another layer":                {registry.Fault{Path: "/blobs/", Body: bytes.Repeat([]byte("x"), 1000)}, "size mismatch: received 1000 bytes", "layer 1 of 1"},
		"login page":                   {registry.Fault{Path: "/manifests/", Body: []byte("<html>log in</html>"), Header: http.Header{"Content-Type": {"text/html"}}}, `an HTML page (content type "text/html", starting with "log in")`, "manifest"},
		"huge manifest":                {registry.Fault{Path: "/manifests/", Body: bytes.Repeat([]byte("x"), 5<<20)}, "received more than 4194304 bytes", "manifest"},
		"circular redirects":           {registry.Fault{Status: 307, Header: http.Header{"Location": {"/v2/again"}}}, "more than 5 redirects", "manifest"},
		"encoded response":             {registry.Fault{Path: "/manifests/", Header: http.Header{"Content-Encoding": {"gzip"}}}, "unexpected Content-Encoding", "manifest"},
		"invalid token realm":          {registry.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="x"`}}}, "the realm is not the URL of a token server", "token"},
		"redirect to plain HTTP":       {registry.Fault{Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"http://registry.example.com/x"}}}, "without TLS", "layer 1 of 1"},
		"redirect to a private server": {registry.Fault{Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"https://169.254.169.254/x"}}}, "link-local", "layer 1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.mirrors[0].Fail(test.fault)
			must(t, s.pull())
			if len(s.passed) == 0 {
				t.Fatal("no failure was reported")
			}
			e := s.passed[0]
			if e.Host != s.mirrors[0].Host() || e.Image != s.reference || e.Step != test.step || !strings.Contains(e.Error(), test.says) {
				t.Errorf("got %v (%+v), want %q in step %s", e, e, test.says, test.step)
			}
			s.mirrors[0].Heal()
			s.mirrors[0].Reset()
		})
	}
}

func TestClient_AsksAnUnreachableMirrorLast(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	must(t, s.mirrors[0].Close())
	for range 3 {
		must(t, s.pull())
	}
	if len(s.passed) != 1 || !strings.Contains(s.passed[0].Advice, "check the connection") {
		t.Errorf("reported: %v, want one failure with advice", s.passed)
	}
}

func TestClient_AsksMirrorsInOrderThenTheRegistry(t *testing.T) {
	s := newStage(t, 2, registry.Options{})
	must(t, s.pull())
	if len(s.mirrors[0].Paths()) != 2 || len(s.mirrors[1].Paths()) != 0 || len(s.own.Paths()) != 0 {
		t.Errorf("requests: %v, %v, %v", s.mirrors[0].Paths(), s.mirrors[1].Paths(), s.own.Paths())
	}
	s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", Status: 404}) // a mirror with a part of the image
	s.mirrors[1].Fail(registry.Fault{Status: 500})
	must(t, s.pull())
	if len(s.own.Paths()) != 1 {
		t.Errorf("requests to the registry: %v, want only the layer", s.own.Paths())
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
	s.conf("[[registry]]\nlocation = \"" + s.own.Host() + "\"\nblocked = true\n")
	if _, blocked := errors.AsType[*mirror.BlockedError](s.pull()); !blocked {
		t.Error("the registry is not blocked")
	}
	if len(s.own.Requests()) > 0 {
		t.Errorf("requests to the blocked registry: %v", s.own.Requests())
	}
}

func TestClient_ReportsTheErrorsOfAllSources(t *testing.T) {
	s := newStage(t, 2, registry.Options{})
	s.mirrors[0].Fail(registry.Fault{Status: 403})
	s.mirrors[1].Fail(registry.Fault{Path: "/manifests/", Body: []byte("x")})
	s.own.Fail(registry.Fault{Status: 503})
	err := s.pull()
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %v, want three errors", err)
	}
	for n, want := range []string{s.mirrors[0].Host() + "/v2/mirrored/aws/manifests", "digest mismatch", "503 Service Unavailable"} {
		if !strings.Contains(lines[n], want) {
			t.Errorf("got %s, want it to contain %q", lines[n], want)
		}
	}
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "manifests"}]; n != 4 {
		t.Errorf("%d attempts at the source with a retryable error, want 4", n)
	}
	if n := s.mirrors[0].Requests()[registry.Key{Method: "GET", Kind: "manifests"}]; n != 1 {
		t.Errorf("%d attempts at the source with a terminal error, want 1", n)
	}
}

func TestBody_ResumesAnInterruptedBlob(t *testing.T) {
	for _, at := range []int{1, 511, 512, 65536, 100_000, 300_000} {
		for _, ranges := range []bool{true, false} {
			t.Run(fmt.Sprint(at, " ranges ", ranges), func(t *testing.T) {
				s := newStage(t, 0, registry.Options{})
				var asked []string
				s.own.Fail(registry.Fault{Path: "/blobs/", CutAfter: at, Times: 1})
				s.own.Fail(registry.Fault{Path: "/blobs/", Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					asked = append(asked, req.Header.Get("Range"))
					if !ranges {
						req.Header.Del("Range")
					}
					next.ServeHTTP(w, req)
				}})
				meter := &Meter{}
				image, err := s.puller.Open(t.Context(), s.reference)
				must(t, err)
				calls := 0
				must(t, image.Blob(WithMeter(t.Context(), meter), "layer", s.layer, s.layer.Size, func(body io.Reader) error {
					calls++
					got, err := io.ReadAll(body)
					if !bytes.Equal(got, s.content) {
						t.Error("the layer has other bytes")
					}
					return err
				}))
				if want := []string{fmt.Sprintf("bytes=%d-%d", at, s.layer.Size-1)}; calls != 1 || !slices.Equal(asked, want) {
					t.Errorf("read %d times, requested %v, want %v", calls, asked, want)
				}
				want := s.layer.Size
				if !ranges {
					want += int64(at)
				}
				if got := meter.Received.Load(); got != want || meter.Requests.Load() != 2 {
					t.Errorf("received %d bytes in %d requests, want %d in 2", got, meter.Requests.Load(), want)
				}
			})
		}
	}
}

func TestBody_SurvivesManyInterruptions(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.own.Fail(registry.Fault{Path: "/blobs/", CutAfter: 70_000}) // enough progress each time
	must(t, s.pull())
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n < 4 {
		t.Errorf("%d requests", n)
	}
}

func TestBody_RejectsAnotherRest(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, req *http.Request, next http.Handler){
		"all of another blob": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			fmt.Fprint(w, strings.Repeat("x", 400_000))
		},
		"another part": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Range", "bytes 7-9/10")
			w.WriteHeader(http.StatusPartialContent)
		},
		"other bytes": func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
			var from, to int
			if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
				panic(err)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, to+1))
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, strings.Repeat("x", to-from+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", CutAfter: 1000, Times: 1})
			s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", Serve: serve})
			must(t, s.pull()) // from the registry
			if len(s.passed) != 1 || s.passed[0].Step != "layer 1 of 1" {
				t.Errorf("reported: %v", s.passed)
			}
		})
	}
}

func TestBlob_ReadErrorCountsOnlyForVerifiedBytes(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", Body: bytes.Repeat([]byte("x"), int(s.layer.Size))})
	image, err := s.puller.Open(t.Context(), s.reference)
	must(t, err)
	wrong := errors.New("invalid archive")
	read := func(reject byte) func(io.Reader) error {
		return func(body io.Reader) error {
			start := make([]byte, 1)
			if _, err := io.ReadFull(body, start); err != nil {
				return err
			}
			if start[0] == reject {
				return wrong
			}
			return nil // stops before the end
		}
	}
	if err := image.Blob(t.Context(), "layer", s.layer, s.layer.Size, read('x')); err != nil || len(s.passed) != 1 {
		t.Errorf("got %v, reported %v; want a failure of the mirror", err, s.passed)
	}
	s.mirrors[0].Heal()
	if err := image.Blob(t.Context(), "layer", s.layer, s.layer.Size, read(s.content[0])); !errors.Is(err, wrong) {
		t.Errorf("got %v, want the error about the verified bytes", err)
	}
}

func TestBlob_StopsWhenReadReturns(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.own.Fail(registry.Fault{Path: "/blobs/", Pause: time.Millisecond, Chunk: 1000})
	image, err := s.puller.Open(t.Context(), s.reference)
	must(t, err)
	meter := &Meter{}
	err = image.Blob(WithMeter(t.Context(), meter), "layer", s.layer, s.layer.Size, func(body io.Reader) error {
		_, err := io.CopyN(io.Discard, body, 100)
		return err
	})
	if got := meter.Received.Load(); err != nil || got > s.layer.Size/2 {
		t.Errorf("got %v after %d bytes of %d", err, got, s.layer.Size)
	}
}

func TestBody_GivesUpATrickle(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.puller.Pace.Detour = 200 * time.Millisecond
	s.mirrors[0].Fail(registry.Fault{Path: "/blobs/", Pause: 10 * time.Millisecond, Chunk: 16})
	must(t, s.pull())
	if len(s.passed) != 1 || !errors.Is(s.passed[0], errSlow) {
		t.Errorf("reported: %v", s.passed)
	}
}

func TestClient_GivesUpWithoutResponse(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.puller.Pace.Silence = 2 * time.Second // the other registry answers sooner, also on a busy machine
	s.mirrors[0].Fail(registry.Fault{Delay: time.Minute})
	must(t, s.pull())
	if len(s.passed) != 1 || !strings.Contains(s.passed[0].Error(), "timed out waiting for the response") {
		t.Errorf("reported: %v", s.passed)
	}
}

func TestClient_RetryAfterPausesAllImages(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.puller.Retry.MaxBackoff = 0 // the default
	s.own.Fail(registry.Fault{Path: "/manifests/", Status: 429, Times: 1, Header: http.Header{"Retry-After": {"1"}}})
	var first time.Time
	s.own.Fail(registry.Fault{Path: "/manifests/", Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if first.IsZero() {
			first = time.Now()
		}
		next.ServeHTTP(w, req)
	}})
	start := time.Now()
	must(t, s.pull())
	if d := first.Sub(start); d < 900*time.Millisecond {
		t.Errorf("retried after %s, want at least a second", d)
	}
}

func TestRetryAfter_Formats(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0, "99999999": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		resp := &http.Response{Header: http.Header{"Retry-After": {value}}}
		if got := retryAfter(resp, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestClient_LimitsConcurrentRequestsPerHost(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.puller.RequestsPerHost = 2
	var mu sync.Mutex
	now, most := 0, 0
	s.own.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		next.ServeHTTP(w, req)
		mu.Lock()
		now--
		mu.Unlock()
	}})
	done := make(chan error)
	for range 8 {
		go func() { done <- s.pull() }()
	}
	for range 8 {
		must(t, <-done)
	}
	if most > 2 {
		t.Errorf("%d concurrent requests, want 2", most)
	}
}

func TestClient_TrustsTheCAOfItsHost(t *testing.T) {
	ca, err := registry.NewCA()
	must(t, err)
	other, err := registry.NewCA()
	must(t, err)
	s := newStage(t, 0, registry.Options{CA: ca})
	key := strings.Replace(s.own.Host(), ":", "..", 1)
	for name, test := range map[string]struct {
		hosts map[string]string
		good  bool
	}{
		"its CA": {map[string]string{key: string(ca.PEM())}, true}, "another CA": {map[string]string{key: string(other.PEM())}, false}, "none": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			cas, err := transport.ParseCAs(nil, test.hosts)
			must(t, err)
			s.network(transport.Options{CAs: cas})
			s.own.Reset()
			switch err := s.pull(); {
			case (err == nil) != test.good:
				t.Errorf("got %v", err)
			case err != nil && (!strings.Contains(err.Error(), "to the directory of the host in certs.d") || len(s.own.Requests()) > 0):
				t.Errorf("got %v after %v; want advice, and no requests", err, s.own.Requests())
			}
		})
	}
	s.conf("[[registry]]\nlocation = \"" + s.own.Host() + "\"\ninsecure = true\n")
	s.network(transport.Options{})
	must(t, s.pull())
}

// logins are credentials that a test changes.
type logins map[string]keychain.Credentials

func (l logins) Resolve(_ context.Context, repository string) (keychain.Credentials, error) {
	host, _, _ := strings.Cut(repository, "/")
	return l[host], nil
}

// authorize challenges requests that are not authorized.
func authorize(challenge string, authorized func(*http.Request) bool) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if authorized(req) {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestClient_SendsPasswordsToTheirRegistryOnly(t *testing.T) {
	s := newStage(t, 1, registry.Options{Username: "robot", Password: "s3cr3t"})
	s.access.Keychain = logins{s.own.Host(): {Username: "robot", Password: "s3cr3t", Key: "own", Origin: "a test"}}
	var sent []string
	s.mirrors[0].Fail(registry.Fault{Serve: authorize(`Basic realm="mirror"`, func(req *http.Request) bool {
		sent = append(sent, req.Header.Get("Authorization"))
		return false
	})})
	must(t, s.pull())
	if !slices.Equal(slices.Compact(sent), []string{""}) {
		t.Error("a mirror was sent credentials of another registry")
	}
	s.access.Keychain = logins{s.own.Host(): {Username: "robot", Password: "old-s3cr3t", Key: "own", Origin: "a test"}}
	err := s.pull()
	if err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), `check the credentials of "own" in a test`) {
		t.Errorf("got %v, want the name of the rejected credentials, not their content", err)
	}
	s.access.Keychain = logins{s.own.Host(): {Username: "robot", Password: "s3cr3t"}} // rotated, without a restart
	must(t, s.pull())
}

func TestRedirect_DropsCredentialsForAnotherHost(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	store := registry.New(t, registry.Options{Address: "127.0.0.9:0"})
	var got http.Header
	store.Fail(registry.Fault{Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		got = req.Header.Clone()
		_, _ = w.Write(s.content)
	}})
	s.own.Fail(registry.Fault{Path: "/manifests/", Serve: authorize(`Basic realm="own"`, func(req *http.Request) bool { return req.Header.Get("Authorization") != "" })})
	authorized := false
	s.own.Fail(registry.Fault{Path: "/blobs/", Serve: func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		authorized = req.Header.Get("Authorization") != ""
		http.Redirect(w, req, "http://"+store.Host()+"/signed?signature=s3cr3t", http.StatusTemporaryRedirect)
	}})
	s.access.Keychain = logins{s.own.Host(): {Username: "robot", Password: "s3cr3t"}}
	must(t, s.pull())
	if !authorized || got == nil || got.Get("Authorization") != "" || got.Get("Cookie") != "" {
		t.Errorf("credentials sent to the registry: %t; the other host got %v", authorized, got)
	}
	store.Heal()
	store.Fail(registry.Fault{Status: 403})
	if err := s.pull(); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v, want an error without the query", err)
	}
}

// addresses are public and private addresses of hosts.
var addresses = map[string]string{
	"registry.example.com": "93.184.216.34", "store.example.com": "93.184.216.35", "inside.example.com": "10.1.2.3", "mirror.example.com": "10.1.2.4",
}

// redirectDialer is a dialer that resolves every name to its address, checks it, and connects only to the
// registries of the test, and only by their names.
type redirectDialer struct {
	connect map[string]string // name with port to the address of its listener
	refused []string
}

// insecure configures the name of the registry after renamed.
const insecure = "[[registry]]\nlocation = \"registry.example.com:5000\"\ninsecure = true\n"

// renamed gives the registry a name with a public address, and connects to others by their names.
func (s *stage) renamed(others map[string]string) *redirectDialer {
	s.Helper()
	d := &redirectDialer{connect: map[string]string{"registry.example.com:5000": s.own.Host()}}
	maps.Copy(d.connect, others)
	s.network(transport.Options{Dial: d.dial})
	s.conf(insecure)
	s.reference = strings.Replace(s.reference, s.own.Host(), "registry.example.com:5000", 1)
	return d
}

func (e *redirectDialer) dial(ctx context.Context, control transport.Control, kind, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := control(ctx, kind, net.JoinHostPort(addresses[host], port), nil); err != nil {
		e.refused = append(e.refused, address)
		return nil, err
	}
	if e.connect[address] == "" {
		return nil, fmt.Errorf("this dialer does not connect to %s", address)
	}
	return (&net.Dialer{}).DialContext(ctx, kind, e.connect[address])
}

func TestRedirect_RejectsAPrivateAddress(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	d := s.renamed(nil)
	for _, target := range []string{"https://inside.example.com:8443/x", "https://mirror.example.com/x"} {
		s.own.Heal()
		s.own.Fail(registry.Fault{Path: "/blobs/", Status: 307, Header: http.Header{"Location": {target}}})
		err := s.pull()
		if _, refused := errors.AsType[*transport.AddressError](err); !refused {
			t.Errorf("%s: got %v", target, err)
		}
	}
	if len(d.refused) != 2 {
		t.Errorf("rejected at the dial: %v", d.refused)
	}
	s.conf(insecure + "[[registry]]\nlocation = \"mirror.example.com\"\n") // now the configuration names the host
	err := s.pull()
	if _, refused := errors.AsType[*transport.AddressError](err); refused || !strings.Contains(err.Error(), "does not connect") {
		t.Errorf("got %v, want the address to be accepted", err)
	}
}

func TestToken_RejectsAServerAtAPrivateAddress(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	d := s.renamed(nil)
	s.access.Keychain = logins{"registry.example.com:5000": {Username: "robot", Password: "s3cr3t"}}
	s.own.Fail(registry.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="https://inside.example.com/token",service="x"`}}})
	err := s.pull()
	e, ok := errors.AsType[*Error](err)
	if _, refused := errors.AsType[*transport.AddressError](err); !refused || !ok || e.Step != "token" || e.Host != "inside.example.com" || len(d.refused) != 1 {
		t.Errorf("got %v, rejected %v", err, d.refused)
	}
}

func TestParseChallenge(t *testing.T) {
	for text, want := range map[string]challenge{
		`Basic realm="x"`: {scheme: "basic"},
		`Bearer realm="https://a/b?c=d,e",service="s",scope="repository:a:pull,push"`: {"bearer", "https://a/b?c=d,e", "s"},
		`bearer Realm = "a\"b" , service=plain`:                                       {"bearer", `a"b`, "plain"},
		`Negotiate`:                                                                   {},
		`Bearer realm="unclosed`:                                                      {"bearer", "unclosed", ""},
		``:                                                                            {},
		`Bearer`:                                                                      {scheme: "bearer"},
	} {
		if got := parseChallenge(http.Header{"Www-Authenticate": {text}}); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	both := http.Header{"Www-Authenticate": {`Basic realm="x"`, `Bearer realm="y"`}}
	if got := parseChallenge(both); got.scheme != "bearer" {
		t.Errorf("got %+v", got)
	}
}

func TestParseToken(t *testing.T) {
	for body, want := range map[string]string{
		`{"token": "a"}`: "a 50s", `{"access_token": "b", "expires_in": 300}`: "b 4m50s", `{"token": "a", "access_token": "b"}`: "a 50s",
		`{}`: "", `{"token": 7}`: "", `{"token": "a\nb"}`: "", `{"token": ""}`: "", `x`: "", `{"token": "a", "expires_in": 1}`: "a 500ms",
		`{"token": "` + strings.Repeat("a", maxTokenResponse) + `"}`: "",
	} {
		token, lasts, err := parseToken([]byte(body)[:min(len(body), maxTokenResponse)])
		if got := strings.TrimSuffix(token+" "+lasts.String(), " 0s"); got != want || (err == nil) != (want != "") {
			t.Errorf("%.40s: got %q, %v, want %q", body, got, err, want)
		}
	}
}

func TestToken_PostsARefreshToken(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || req.FormValue("refresh_token") != "r3fr3sh" || req.FormValue("scope") != "repository:release/aws:pull" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"access_token": "t0k3n"}`)
	}))
	defer server.Close()
	s.own.Fail(registry.Fault{Serve: authorize(`Bearer realm="`+server.URL+`/token",service="x"`, func(req *http.Request) bool {
		return req.Header.Get("Authorization") == "Bearer t0k3n"
	})})
	s.access.Keychain = logins{s.own.Host(): {IdentityToken: "r3fr3sh"}}
	must(t, s.pull())
	s.access.Keychain = logins{s.own.Host(): {RegistryToken: "t0k3n"}}
	must(t, s.pull())
	if diff := cmp.Diff(map[registry.Key]int{{Method: "GET", Kind: "manifests"}: 3, {Method: "GET", Kind: "blobs"}: 2}, s.own.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestRedirect_ChallengeIsIgnored: the server of a redirect must not name the token server that gets the credentials of
// the registry.
func TestRedirect_ChallengeIsIgnored(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		stolen = append(stolen, req.Header.Get("Authorization"))
		fmt.Fprint(w, `{"token": "t0k3n"}`)
	}))
	defer thief.Close()
	store := registry.New(t, registry.Options{Address: "127.0.0.9:0"})
	store.Fail(registry.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="` + thief.URL + `/token",service="x"`}}})
	s.own.Fail(registry.Fault{Path: "/blobs/", Status: 307, Header: http.Header{"Location": {"http://" + store.Host() + "/signed"}}})
	s.access.Keychain = logins{s.own.Host(): {Username: "robot", Password: "s3cr3t"}}
	for range 2 {
		err := s.pull()
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != 401 {
			t.Errorf("got %v, want the status 401", err)
		}
	}
	if len(stolen) > 0 {
		t.Errorf("%d requests to the token server that another host named", len(stolen))
	}
}

// TestToken_OfRotatedCredentials: a token that is still valid, but was fetched with other credentials, is not used.
func TestToken_OfRotatedCredentials(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, _, _ := req.BasicAuth()
		asked = append(asked, user)
		fmt.Fprintf(w, `{"token": "of-%s"}`, user)
	}))
	defer server.Close()
	var used []string
	revoked := ""
	s.own.Fail(registry.Fault{Serve: authorize(`Bearer realm="`+server.URL+`/token",service="x"`, func(req *http.Request) bool {
		token := req.Header.Get("Authorization")
		if token == "" || token == revoked {
			return false
		}
		used = append(used, token)
		return true
	})})
	pull := func(user string, tokens ...string) {
		t.Helper()
		asked, used = nil, nil
		s.access.Keychain = logins{s.own.Host(): {Username: user, Password: "s3cr3t"}}
		must(t, s.pull())
		if !slices.Equal(asked, tokens) || !slices.Equal(slices.Compact(used), []string{"Bearer of-" + user}) {
			t.Errorf("%s: requested tokens %v, used %v", user, asked, used)
		}
	}
	pull("one", "one")
	pull("one")
	pull("two", "two")
	revoked = "Bearer of-two"
	s.access.Keychain = logins{s.own.Host(): {Username: "two", Password: "s3cr3t"}}
	asked = nil
	if err := s.pull(); err == nil || len(asked) == 0 {
		t.Errorf("a revoked token: got %v after %d requests for tokens", err, len(asked))
	}
}

// TestImage_GetIsBounded reads a URL besides the sources of an image.
func TestImage_GetIsBounded(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.access.Keychain = logins{s.own.Host(): {Username: "robot", Password: "s3cr3t"}}
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent = append(sent, req.Header.Get("Authorization"))
		if req.URL.Path == "/missing" {
			http.NotFound(w, req)
			return
		}
		fmt.Fprint(w, "0123456789")
	}))
	defer server.Close()
	image, err := s.puller.Open(t.Context(), s.reference)
	must(t, err)
	get := func(path string, limit int64) ([]byte, error) {
		at, err := url.Parse(server.URL + path)
		must(t, err)
		return image.Get(t.Context(), "signature", at, limit)
	}
	if body, err := get("/a", 10); err != nil || string(body) != "0123456789" {
		t.Errorf("got %q, %v", body, err)
	}
	if body, err := get("/a", 9); !errors.As(err, new(*SizeError)) || body != nil {
		t.Errorf("above the limit: got %q, %v", body, err)
	}
	if e, ok := errors.AsType[*Error](func() error { _, err := get("/missing", 10); return err }()); !ok || e.Status != 404 || e.Step != "signature" {
		t.Errorf("not found: got %v", e)
	}
	if !slices.Equal(slices.Compact(sent), []string{""}) {
		t.Error("credentials of the registry were sent")
	}
}
