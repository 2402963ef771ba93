// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
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

	ggcr "github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/test/registry"
)

// rawRegistry is a registry with any manifests and blobs, also those that go-containerregistry does not accept. It counts
// the requests with credentials, and the GET requests by path.
type rawRegistry struct {
	*registry.Registry
	chunked bool // states no sizes

	mu      sync.Mutex
	content map[string]rawContent // by path
	logins  int
}

type rawContent struct {
	mediaType string
	body      []byte
}

func newRawRegistry(t testing.TB) *rawRegistry {
	r := &rawRegistry{content: map[string]rawContent{}}
	r.Registry = registry.New(t, registry.Options{Handler: r})
	return r
}

// ServeHTTP implements http.Handler.
func (r *rawRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	found, ok := r.content[req.URL.Path]
	if req.Header.Get("Authorization") != "" {
		r.logins++
	}
	chunked := r.chunked
	r.mu.Unlock()
	switch {
	case req.URL.Path == "/v2/":
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		if found.mediaType != "" {
			w.Header().Set("Content-Type", found.mediaType)
		}
		if !chunked {
			w.Header().Set("Content-Length", fmt.Sprint(len(found.body)))
		}
		_, _ = w.Write(found.body)
		if chunked {
			w.(http.Flusher).Flush()
		}
	}
}

func (r *rawRegistry) add(path, mediaType string, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[path] = rawContent{mediaType, body}
}

// blob adds a blob and returns its descriptor.
func (r *rawRegistry) blob(algorithm digest.Algorithm, mediaType ggcr.MediaType, body []byte) string {
	d := algorithm.FromBytes(body)
	r.add("/v2/a/blobs/"+d.String(), "application/octet-stream", body)
	return descriptor(d, mediaType, len(body), "")
}

// descriptor returns a descriptor with further fields.
func descriptor(d digest.Digest, mediaType ggcr.MediaType, size int, fields string) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d%s}`, mediaType, d, size, fields)
}

// manifest adds a manifest with a digest and returns the reference of the image.
func (r *rawRegistry) manifest(d digest.Digest, mediaType ggcr.MediaType, body string) string {
	r.add("/v2/a/manifests/"+d.String(), string(mediaType), []byte(body))
	return r.Host() + "/a@" + d.String()
}

// image adds an OCI image of layers with the usual digests.
func (r *rawRegistry) image(config string, layers ...string) string {
	raw := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s]}`, ggcr.OCIManifestSchema1, config, strings.Join(layers, ","))
	return r.manifest(digest.FromString(raw), ggcr.OCIManifestSchema1, raw)
}

// config adds the config of an image with a layer.
func (r *rawRegistry) config(algorithm digest.Algorithm, layer []byte) string {
	archive, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		panic(err)
	}
	unpacked, err := digest.FromReader(archive)
	if err != nil {
		panic(err)
	}
	return r.blob(algorithm, ggcr.OCIConfigJSON, fmt.Appendf(nil, `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[%q]}}`, unpacked))
}

// schema1Layer is a layer of a manifest of schema 1, with the fields of its history.
type schema1Layer struct {
	blob    digest.Digest
	history string
}

// schema1 returns a manifest of schema 1 with layers from the top, as in the format.
func schema1(layers ...schema1Layer) string {
	m := manifest.Schema1{Name: "a", Tag: "v1", Architecture: "amd64", SchemaVersion: 1}
	for _, layer := range layers {
		m.FSLayers = append(m.FSLayers, manifest.Schema1FSLayers{BlobSum: layer.blob})
		m.History = append(m.History, manifest.Schema1History{V1Compatibility: layer.history})
	}
	raw, err := json.MarshalIndent(m, "", "   ")
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// history returns the history of layer n of last+1, from the top.
func history(n, last int, fields string) string {
	id := func(n int) string { return fmt.Sprintf("%064x", n+1) }
	parent := fmt.Sprintf(`,"parent":%q`, id(n+1))
	if n == last {
		parent = ""
	}
	return fmt.Sprintf(`{"id":%q%s,"created":"2016-01-01T00:00:00Z","os":"linux","architecture":"amd64"%s}`, id(n), parent, fields)
}

// signed returns a manifest of schema 1 with a signature.
func signed(t testing.TB, raw string) string {
	out, err := manifest.AddDummyV2S1Signature([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// nodesRead returns the error of containers/image, the library of CRI-O and podman, when it reads the manifest, the config
// and the layers of an image.
func nodesRead(t testing.TB, reference string) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	empty := t.TempDir()
	conf := filepath.Join(empty, "registries.conf")
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	system := &types.SystemContext{
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue, ArchitectureChoice: "amd64", OSChoice: "linux",
		SystemRegistriesConfPath: conf, SystemRegistriesConfDirPath: empty, RegistriesDirPath: empty,
		DockerPerHostCertDirPath: empty, DockerCertPath: empty, AuthFilePath: filepath.Join(empty, "auth.json"), BlobInfoCacheDir: empty,
	}
	from, err := docker.ParseReference("//" + reference)
	if err != nil {
		return err
	}
	source, err := from.NewImageSource(t.Context(), system)
	if err != nil {
		return err
	}
	defer source.Close()
	unparsed, err := chooseInstance(t, source, system)
	if err != nil {
		return err
	}
	parsed, err := image.FromUnparsedImage(t.Context(), system, unparsed)
	if err != nil {
		return err
	}
	if parsed.ConfigInfo().Digest != "" {
		if _, err := parsed.OCIConfig(t.Context()); err != nil {
			return err
		}
	}
	for _, layer := range parsed.LayerInfos() {
		if err := readLayer(t, source, layer); err != nil {
			return err
		}
	}
	return nil
}

// chooseInstance returns the image, with a verified manifest: the one of an index for the platform.
func chooseInstance(t testing.TB, source types.ImageSource, system *types.SystemContext) (*image.UnparsedImage, error) {
	top := image.UnparsedInstance(source, nil)
	raw, mediaType, err := top.Manifest(t.Context())
	if err != nil || !manifest.MIMETypeIsMultiImage(mediaType) {
		return top, err
	}
	list, err := manifest.ListFromBlob(raw, mediaType)
	if err != nil {
		return nil, err
	}
	chosen, err := list.ChooseInstance(system)
	return image.UnparsedInstance(source, &chosen), err
}

// readLayer reads and verifies a layer, as the package copy of containers/image does.
func readLayer(t testing.TB, source types.ImageSource, layer types.BlobInfo) error {
	if err := layer.Digest.Validate(); err != nil {
		return err
	}
	body, _, err := source.GetBlob(t.Context(), layer, none.NoCache)
	if err != nil {
		return err
	}
	defer body.Close()
	verifier := layer.Digest.Verifier()
	if _, err := io.Copy(verifier, body); err != nil {
		return err
	}
	if !verifier.Verified() {
		return errors.New("the layer has other bytes")
	}
	return nil
}

// nodesCase is an image of a format that container runtimes read or reject.
type nodesCase struct {
	name string
	// push adds the image, with the bundle in a layer. It returns its reference.
	push func(t testing.TB, r *rawRegistry, bundle, other []byte) string
	// empty means that the bundle is in no layer that is unpacked.
	empty bool
	// says is the error, if the image is rejected.
	says string
	// stricter is the reason why an image is rejected although containers/image reads it.
	stricter string
}

var gzipLayer = ggcr.OCILayer

// nodesCases are formats that few tools write, and that nodes read or reject.
var nodesCases = []nodesCase{
	{name: "schema 1, unsigned", push: func(_ testing.TB, r *rawRegistry, bundle, other []byte) string {
		raw := schema1(r.layer1(bundle, 0, 1, ""), r.layer1(other, 1, 1, ""))
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, signed", push: func(t testing.TB, r *rawRegistry, bundle, other []byte) string {
		raw := schema1(r.layer1(bundle, 0, 1, ""), r.layer1(other, 1, 1, ""))
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1Signed, signed(t, raw))
	}},
	{name: "schema 1, signed, in one line", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		var raw any
		_ = json.Unmarshal([]byte(schema1(r.layer1(bundle, 0, 0, ""))), &raw)
		line, _ := json.Marshal(raw)
		return r.manifest(digest.FromBytes(line), ggcr.DockerManifestSchema1Signed, signed(t, string(line)))
	}},
	{name: "schema 1, signed, by the digest of all bytes", says: "digest mismatch: received", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		raw := signed(t, schema1(r.layer1(bundle, 0, 0, "")))
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1Signed, raw)
	}},
	{name: "schema 1, signed, with other layers outside of the payload", says: "received invalid signatures", stricter: "the digest does not cover these layers", push: func(t testing.TB, r *rawRegistry, bundle, other []byte) string {
		raw := schema1(r.layer1(other, 0, 0, ""))
		whole := signed(t, raw)
		more := fmt.Sprintf(`,"fsLayers":[{"blobSum":%q}],"signatures"`, r.layer1(bundle, 0, 0, "").blob)
		i := strings.LastIndex(whole, `"signatures"`)
		cut := strings.LastIndex(whole[:i], ",")
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1Signed, whole[:cut]+more+whole[i+len(`"signatures"`):])
	}},
	{name: "schema 1, with a throwaway layer", empty: true, push: func(_ testing.TB, r *rawRegistry, bundle, other []byte) string {
		raw := schema1(r.layer1(bundle, 0, 1, `,"throwaway":true`), r.layer1(other, 1, 1, ""))
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, with an ID twice", push: func(_ testing.TB, r *rawRegistry, bundle, other []byte) string {
		raw := schema1(r.layer1(other, 0, 1, ""), r.layer1(bundle, 1, 1, ""), r.layer1(bundle, 1, 1, ""))
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, with a layer by SHA-512", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		r.blob(digest.SHA512, gzipLayer, bundle)
		raw := schema1(schema1Layer{digest.SHA512.FromBytes(bundle), history(0, 0, "")})
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, without the parent", says: "Invalid parent ID", push: func(_ testing.TB, r *rawRegistry, bundle, other []byte) string {
		raw := schema1(r.layer1(bundle, 0, 0, ""), r.layer1(other, 1, 1, ""))
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, without history", says: "length of history", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		raw := fmt.Sprintf(`{"schemaVersion":1,"fsLayers":[{"blobSum":%q}]}`, r.layer1(bundle, 0, 0, "").blob)
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, with layers of schema 2", says: "ambiguous", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		raw := strings.Replace(schema1(r.layer1(bundle, 0, 0, "")), "{", `{"layers":[],`, 1)
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
	}},
	{name: "schema 1, signed, with a negative length", says: "received invalid signatures", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		protected := base64.RawURLEncoding.EncodeToString([]byte(`{"formatLength":-1,"formatTail":""}`))
		raw := strings.Replace(schema1(r.layer1(bundle, 0, 0, "")), "{", fmt.Sprintf(`{"signatures":[{"protected":%q}],`, protected), 1)
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1Signed, raw)
	}},
	{name: "a manifest list with schema 1", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		raw := schema1(r.layer1(bundle, 0, 0, ""))
		r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
		list := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, ggcr.DockerManifestList,
			descriptor(digest.FromString(raw), ggcr.DockerManifestSchema1, len(raw), `,"platform":{"os":"linux","architecture":"amd64"}`))
		return r.manifest(digest.FromString(list), ggcr.DockerManifestList, list)
	}},
	{name: "a layer by SHA-512", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.image(r.config(digest.SHA256, bundle), r.blob(digest.SHA512, gzipLayer, bundle))
	}},
	{name: "a layer by SHA-384", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.image(r.config(digest.SHA256, bundle), r.blob(digest.SHA384, gzipLayer, bundle))
	}},
	{name: "a config by SHA-512", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.image(r.config(digest.SHA512, bundle), r.blob(digest.SHA256, gzipLayer, bundle))
	}},
	{name: "a layer with a wrong SHA-512", says: "digest mismatch", push: func(_ testing.TB, r *rawRegistry, bundle, other []byte) string {
		d := digest.SHA512.FromBytes(other)
		r.add("/v2/a/blobs/"+d.String(), "", bundle)
		return r.image(r.config(digest.SHA256, bundle), descriptor(d, gzipLayer, len(bundle), ""))
	}},
	{name: "a layer by BLAKE3", says: "unsupported digest algorithm", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.image(r.config(digest.SHA256, bundle), descriptor(digest.Digest("blake3:"+strings.Repeat("a", 64)), gzipLayer, len(bundle), ""))
	}},
	{name: "an index with another image by SHA-512", push: func(_ testing.TB, r *rawRegistry, bundle, other []byte) string {
		r.image(r.config(digest.SHA256, bundle), r.blob(digest.SHA256, gzipLayer, bundle))
		child, size := r.last()
		return r.index(descriptor(digest.SHA512.FromBytes(other), ggcr.OCIManifestSchema1, 7, `,"platform":{"os":"linux","architecture":"s390x"}`),
			descriptor(child, ggcr.OCIManifestSchema1, size, `,"platform":{"os":"linux","architecture":"amd64"}`))
	}},
	{name: "an index with the image by SHA-512", says: "container runtimes verify manifests with no other", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		raw := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s]}`, ggcr.OCIManifestSchema1, r.config(digest.SHA256, bundle), r.blob(digest.SHA256, gzipLayer, bundle))
		d := digest.SHA512.FromString(raw)
		r.manifest(d, ggcr.OCIManifestSchema1, raw)
		return r.index(descriptor(d, ggcr.OCIManifestSchema1, len(raw), `,"platform":{"os":"linux","architecture":"amd64"}`))
	}},
	{name: "an image by SHA-512", says: "sha256", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		raw := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s]}`, ggcr.OCIManifestSchema1, r.config(digest.SHA256, bundle), r.blob(digest.SHA256, gzipLayer, bundle))
		return r.manifest(digest.SHA512.FromString(raw), ggcr.OCIManifestSchema1, raw)
	}},
	{name: "a foreign layer with a URL", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.foreign(ggcr.DockerForeignLayer, bundle, serve(t, bundle))
	}},
	{name: "a foreign layer with a broken URL before a sound one", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.foreign(ggcr.OCIRestrictedLayer, bundle, "ftp://127.0.0.1/layer", serve(t, nil), serve(t, bundle))
	}},
	{name: "a usual layer with a URL", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.foreign(gzipLayer, bundle, serve(t, bundle))
	}},
	{name: "a foreign layer in the registry, without URLs", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.image(r.config(digest.SHA256, bundle), r.blob(digest.SHA256, ggcr.OCIRestrictedLayer, bundle))
	}},
	{name: "a foreign layer without http URLs", says: "404", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.foreign(ggcr.OCIRestrictedLayer, bundle, "ftp://127.0.0.1/layer", "file:///etc/passwd", "http://")
	}},
	{name: "a foreign layer with a URL of other bytes", says: "digest mismatch", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.foreign(ggcr.OCIRestrictedLayer, bundle, serve(t, slices.Repeat([]byte("x"), len(bundle))))
	}},
}

// layer1 adds a layer of schema 1.
func (r *rawRegistry) layer1(blob []byte, n, last int, fields string) schema1Layer {
	r.blob(digest.SHA256, gzipLayer, blob)
	return schema1Layer{digest.FromBytes(blob), history(n, last, fields)}
}

// last returns the digest and the size of the only manifest.
func (r *rawRegistry) last() (digest.Digest, int) {
	for path, found := range r.content {
		if d, is := strings.CutPrefix(path, "/v2/a/manifests/"); is {
			return digest.Digest(d), len(found.body)
		}
	}
	return "", 0
}

func (r *rawRegistry) index(entries ...string) string {
	raw := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, ggcr.OCIImageIndex, strings.Join(entries, ","))
	return r.manifest(digest.FromString(raw), ggcr.OCIImageIndex, raw)
}

// foreign adds an image whose only layer is at URLs.
func (r *rawRegistry) foreign(mediaType ggcr.MediaType, layer []byte, urls ...string) string {
	all, _ := json.Marshal(urls)
	return r.image(r.config(digest.SHA256, layer), descriptor(digest.FromBytes(layer), mediaType, len(layer), `,"urls":`+string(all)))
}

// serve returns the URL of a file on another host than registries. That host fails if it gets credentials. Without content, there is no such
// file.
func serve(t testing.TB, content []byte) string {
	host := newRawRegistry(t)
	if content != nil {
		host.add("/layer", "", content)
	}
	t.Cleanup(func() {
		if host.logins > 0 {
			t.Errorf("the host of a URL received credentials")
		}
	})
	return "http://" + host.Host() + "/layer"
}

// TestRegistry_ReadsWhatNodesRead compares what is read with containers/image.
func TestRegistry_ReadsWhatNodesRead(t *testing.T) {
	for _, test := range nodesCases {
		t.Run(test.name, func(t *testing.T) {
			r := newRawRegistry(t)
			image := registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Txtar: "-- usr/bin/manager --\nELF\n"})
			bundle, other := registry.Content(t, image, 0), registry.Content(t, image, 1)
			reference := test.push(t, r, bundle, other)
			nodes := nodesRead(t, reference)
			if (nodes == nil) != (test.says == "" || test.stricter != "") {
				t.Errorf("containers/image: %v", nodes)
			}
			for _, chunked := range []bool{false, true} {
				r.chunked = chunked
				got, err := client(t).Fetch(t.Context(), reference)
				switch {
				case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
					t.Errorf("got %v, %v, want %q", got, err, test.says)
				case test.says != "":
				case err != nil, len(got) != 1 != test.empty:
					t.Errorf("chunked=%t: got %v, %v", chunked, got, err)
				case !test.empty && string(got[0].Manifests) != manifests:
					t.Errorf("got %q", got[0].Manifests)
				}
			}
		})
	}
}
