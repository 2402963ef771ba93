// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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
	r.mu.Unlock()
	switch {
	case req.URL.Path == "/v2/":
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		if found.mediaType != "" {
			w.Header().Set("Content-Type", found.mediaType)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(found.body)))
		_, _ = w.Write(found.body)
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
	// says is the error, if the image is rejected.
	says string
	// stricter is the reason why an image is rejected although containers/image reads it.
	stricter string
}

var gzipLayer = ggcr.OCILayer

// nodesCases are formats that few tools write, and that nodes read or reject.
var nodesCases = []nodesCase{
	{name: "schema 1", says: "docker schema 1", stricter: "no provider has this format", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		r.blob(digest.SHA256, gzipLayer, bundle)
		raw := fmt.Sprintf(`{"schemaVersion":1,"name":"a","tag":"v1","architecture":"amd64","fsLayers":[{"blobSum":%q}],"history":[{"v1Compatibility":"{\"id\":\"%064x\",\"os\":\"linux\"}"}]}`, digest.FromBytes(bundle), 1)
		return r.manifest(digest.FromString(raw), ggcr.DockerManifestSchema1, raw)
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
	{name: "a foreign layer with a URL", says: "foreign layer", stricter: "no provider has this format", push: func(t testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.foreign(ggcr.DockerForeignLayer, bundle, serve(t, bundle))
	}},
	{name: "a foreign layer in the registry, without URLs", push: func(_ testing.TB, r *rawRegistry, bundle, _ []byte) string {
		return r.image(r.config(digest.SHA256, bundle), r.blob(digest.SHA256, ggcr.OCIRestrictedLayer, bundle))
	}},
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
			got, err := client(t).Fetch(t.Context(), reference)
			switch {
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, %v, want %q", got, err, test.says)
			case test.says != "":
			case err != nil, len(got) != 1, string(got[0].Manifests) != manifests:
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
