// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package signature

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/test/registry"
)

// The steps of reading a signed image of an index.
const (
	stepPing      = "ping" // the first request, without a token
	stepToken     = "token"
	stepIndex     = "index"
	stepManifest  = "manifest"
	stepSignature = "signature"
	stepPayload   = "signature's layer"
	stepLayer     = "layer"
)

var steps = []string{stepPing, stepToken, stepIndex, stepManifest, stepSignature, stepPayload, stepLayer}

// stall is the kind of fault: a response does not arrive, or arrives slowly.
type stall struct {
	name   string
	silent bool          // no response
	part   bool          // half of the body, or of its rest, and no more
	chunk  int           // bytes of the body ...
	every  time.Duration // ... in each interval; 0 means the rate of a sound registry
}

var (
	sound       = stall{name: "sound", chunk: 1 << 20, every: 100 * time.Millisecond}
	stallsTable = []stall{
		{name: "no answer", silent: true}, {name: "half of the rest", part: true},
		{name: "1 KB/s", chunk: 1 << 10, every: time.Second}, {name: "4 KB/s", chunk: 4 << 10, every: time.Second}, {name: "16 KB/s", chunk: 16 << 10, every: time.Second},
		{name: "64 KB/s", chunk: 64 << 10, every: time.Second}, {name: "64 KiB each 15 s", chunk: 64<<10 + 1, every: 15 * time.Second}, {name: "1 MiB each 14 s", chunk: 1 << 20, every: 14 * time.Second},
	}
)

// signedImage is a signed image of an index, as a registry serves it: by the last two elements of the path.
type signedImage struct {
	reference name.Digest
	content   map[string][]byte
	steps     map[string]string
	types     map[string]string
}

// newSignedImage returns an image. The content of each step has one size, its layer another one. Images with different names have different digests,
// except for their layer if it has the same name.
func newSignedImage(t *testing.T, key *Key, size, layer int, imageName, layerName string) *signedImage {
	t.Helper()
	s := &signedImage{content: map[string][]byte{}, steps: map[string]string{}, types: map[string]string{}}
	pad := imageName + strings.Repeat("x", min(size, 512<<10))
	image, err := registry.Format{Labels: map[string]string{"pad": pad}}.Image(registry.Layer{Entries: []registry.Entry{registry.File("etc/data"+layerName, strings.Repeat("y", layer))}, Compression: registry.None})
	if err != nil {
		t.Fatal(err)
	}
	image = mutate.Annotations(image, map[string]string{"pad": pad}).(v1.Image)
	index := mutate.Annotations(mutate.AppendManifests(mutate.IndexMediaType(emptyIndex(t), "application/vnd.oci.image.index.v1+json"), mutate.IndexAddendum{
		Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	}), map[string]string{"pad": pad}).(v1.ImageIndex)
	raw, err := index.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.put(stepIndex, "manifests/"+digest.String(), raw, "application/vnd.oci.image.index.v1+json")
	s.putImage(t, image, "", stepManifest, stepLayer)
	s.reference, err = name.NewDigest("own.example.com/providers/aws@" + digest.String())
	if err != nil {
		t.Fatal(err)
	}
	attachment, err := key.Attach(nil, "own.example.com/providers/aws:v1", digestOfImage(t, image))
	if err != nil {
		t.Fatal(err)
	}
	s.putImage(t, attachment, AttachmentTag(digestOfImage(t, image)), stepSignature, stepPayload)
	return s
}

func emptyIndex(t *testing.T) v1.ImageIndex {
	t.Helper()
	index, err := registry.Format{}.Index()
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func (s *signedImage) put(step, path string, content []byte, mediaType string) {
	s.content[path], s.steps[path], s.types[path] = content, step, mediaType
}

func (s *signedImage) putImage(t *testing.T, image v1.Image, tag, manifest, layer string) {
	t.Helper()
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	s.put(manifest, "manifests/"+cmp.Or(tag, digestOfImage(t, image).String()), raw, string(parsed.MediaType))
	for n, described := range parsed.Layers {
		s.put(layer, "blobs/"+described.Digest.String(), registry.Content(t, image, n), "application/octet-stream")
	}
}

// network answers requests without a network, so that its time is the fake clock of the test: each host is a registry
// with the image, and "token.HOST" is its token server.
type network struct {
	*signedImage
	step   string           // of the faults
	faults map[string]stall // by registry
	met    atomic.Bool      // a fault
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	host, isToken := strings.CutPrefix(req.URL.Host, "token.")
	parts := strings.Split(req.URL.Path, "/")
	path := strings.Join(parts[max(0, len(parts)-2):], "/")
	step, content, status, header := n.steps[path], n.content[path], http.StatusOK, http.Header{"Content-Type": {n.types[path]}}
	switch {
	case isToken:
		step, content = stepToken, []byte(`{"token": "abc", "expires_in": 300, "pad": "`+strings.Repeat("x", 32<<10)+`"}`)
	case req.Header.Get("Authorization") == "":
		step, content, status = stepPing, []byte(`{"errors": [], "pad": "`+strings.Repeat("x", 32<<10)+`"}`), http.StatusUnauthorized
		header.Set("WWW-Authenticate", `Bearer realm="https://token.`+host+`/token"`)
	case content == nil:
		status = http.StatusNotFound
	}
	pace := sound
	if fault, faulty := n.faults[host]; faulty && step == n.step {
		pace = fault
		n.met.Store(true)
	}
	if pace.silent {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	time.Sleep(200 * time.Millisecond) // a distant registry
	var from, to int
	if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && status == http.StatusOK {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
		content = content[from : to+1]
	}
	return &http.Response{
		StatusCode: status, Header: header, ContentLength: int64(len(content)), Request: req,
		Body: &pacedContent{Reader: bytes.NewReader(content), ctx: req.Context(), pace: pace, size: len(content)},
	}, nil
}

// pacedContent is a body that arrives in chunks.
type pacedContent struct {
	*bytes.Reader
	ctx  context.Context
	pace stall
	size int
	sent int
	due  int // bytes of the current chunk
}

func (p *pacedContent) Read(out []byte) (int, error) {
	if p.pace.part && p.sent >= (p.size+1)/2 {
		<-p.ctx.Done()
		return 0, p.ctx.Err()
	}
	if p.due == 0 && !p.pace.part {
		select {
		case <-time.After(p.pace.every):
			p.due = p.pace.chunk
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	most := p.due
	if p.pace.part {
		most = (p.size+1)/2 - p.sent
	}
	n, err := p.Reader.Read(out[:min(len(out), most)])
	p.sent += n
	p.due = max(0, p.due-n)
	return n, err
}

func (p *pacedContent) Close() error { return nil }

// TestVerified_BoundsStalls reads a signed image, as the cluster does, from mirrors that stall in one step. It takes at
// most a minute if the registry itself is sound, and at most 90 seconds until an error if it stalls too.
func TestVerified_BoundsStalls(t *testing.T) {
	key := newKey(t)
	signed := (&fixture{T: t}).signedBy(key)
	for _, size := range []int{10 << 10, 512 << 10, 10 << 20} {
		image := newSignedImage(t, key, size, max(size, 512<<10), "", "")
		for _, step := range steps {
			if size > 512<<10 && step != stepLayer {
				continue // no larger ones exist
			}
			for _, fault := range stallsTable {
				for _, sources := range []struct{ broken, sound int }{{2, 1}, {1, 0}, {3, 0}} {
					t.Run(fmt.Sprintf("%d KB/%s/%s/%d broken, %d sound", size>>10, step, fault.name, sources.broken, sources.sound), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							n := &network{signedImage: image, step: step}
							took, err := readStalled(t, signed, n, fault, sources.broken, sources.sound)
							t.Logf("%.1f s, %.300v", took.Seconds(), err)
							if !n.met.Load() {
								t.Error("no request met the fault")
							}
							if sources.sound > 0 && (err != nil || took > time.Minute) || took > 90*time.Second {
								t.Errorf("took %s: %v", took, err)
							}
						})
					})
				}
			}
		}
	}
}

// readStalled reads the image of a network from broken and sound mirrors and the registry.
func readStalled(t *testing.T, signed *policy.Policy, n *network, fault stall, broken, sound int) (time.Duration, error) {
	t.Helper()
	client := n.client(t, fault, broken, sound)
	defer client.Close()
	read := fetcher(t, client, signed)
	start := time.Now()
	_, err := read.Fetch(t.Context(), n.reference.String())
	return time.Since(start), err
}

// fetcher returns a fetcher of signed images, as in a cluster.
func fetcher(t *testing.T, client *fetch.Client, signed *policy.Policy) extractor.Fetcher {
	images := &remote.Registry{Client: client}
	return &Verified{
		Verifier: &Verifier{Policy: func(context.Context) (*policy.Policy, error) { return signed, nil }, Registry: images, TempDir: t.TempDir()}, Next: images,
	}
}

// client returns a client for broken and sound mirrors and the registry in a network.
func (n *network) client(t *testing.T, fault stall, broken, sound int) *fetch.Client {
	t.Helper()
	hosts := []string{"m1.example.com", "m2.example.com", "own.example.com"}[3-broken-sound:]
	conf := "[[registry]]\nlocation = \"own.example.com\"\n"
	n.faults = map[string]stall{}
	for i, host := range hosts {
		if i < broken {
			n.faults[host] = fault
		}
		if i < len(hosts)-1 {
			conf += "[[registry.mirror]]\nlocation = \"" + host + "\"\n"
		}
	}
	rules, err := mirror.Parse(t.TempDir(), []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	return &fetch.Client{
		Settings:      func(context.Context) (fetch.Settings, error) { return fetch.Settings{Mirrors: rules}, nil },
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return n },
	}
}

// TestVerified_BoundsStallsOfManyImages reads many images concurrently, with one client. The time of each is bounded as if it
// were the only one, although they wait for each other: for tokens, for requests to a host, and for layers.
func TestVerified_BoundsStallsOfManyImages(t *testing.T) {
	key := newKey(t)
	signed := (&fixture{T: t}).signedBy(key)
	const concurrent = 20
	faults := slices.DeleteFunc(slices.Clone(stallsTable), func(fault stall) bool { return !fault.silent && !fault.part && fault.chunk != 16<<10 })
	for kind, layerName := range map[string]func(n int) string{
		"own layers": strconv.Itoa, "a shared layer": func(int) string { return "" },
	} {
		var images []*signedImage
		all := &signedImage{content: map[string][]byte{}, steps: map[string]string{}, types: map[string]string{}}
		for n := range concurrent {
			image := newSignedImage(t, key, 64<<10, 1<<20, strconv.Itoa(n), layerName(n))
			images = append(images, image)
			maps.Copy(all.content, image.content)
			maps.Copy(all.steps, image.steps)
			maps.Copy(all.types, image.types)
		}
		for _, step := range steps {
			if kind == "a shared layer" && step != stepLayer {
				continue
			}
			for _, fault := range faults {
				for _, sources := range []struct{ broken, sound int }{{2, 1}, {1, 0}, {3, 0}} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d broken, %d sound", kind, step, fault.name, sources.broken, sources.sound), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							client := (&network{signedImage: all, step: step}).client(t, fault, sources.broken, sources.sound)
							defer client.Close()
							read := fetcher(t, client, signed)
							var reads sync.WaitGroup
							start := time.Now()
							for _, image := range images {
								reads.Go(func() {
									_, err := read.Fetch(t.Context(), image.reference.String())
									took := time.Since(start)
									if sources.sound > 0 && (err != nil || took > time.Minute) || took > 90*time.Second {
										t.Errorf("took %s: %.300v", took, err)
									}
								})
							}
							reads.Wait()
							t.Logf("%.1f s", time.Since(start).Seconds())
						})
					})
				}
			}
		}
	}
}
