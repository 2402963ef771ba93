// SPDX-License-Identifier: Apache-2.0

// Package fetch reads manifests and blobs by digest from the sources of an image, its mirrors and its registry, with the code of
// the nodes: go.podman.io/image decides about sources, blocks, credentials, certificates and signatures, gets tokens and
// continues interrupted bodies. This package tries the sources in order, leaves silent and slow sources, returns
// only verified bytes, and gives advice in errors.
//
//	client := &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings, nil }}
//	image, err := client.Open(ctx, "quay.io/example/provider@sha256:…")
//	defer image.Close()
//	manifest, err := image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest()}, 4<<20)
//	err = image.Blob(ctx, "layer", layer, func(body io.Reader) error { … })
package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sirupsen/logrus"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/docker/config"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/pkg/tlsclientconfig"
	"go.podman.io/image/v5/types"
	"golang.org/x/net/http/httpproxy"

	"github.com/capi-installer/capi-installer/extractor/scope"
)

func init() { logrus.SetOutput(io.Discard) } // the library writes hints about servers to standard error

// Settings is the registry configuration. It is immutable; to change the configuration, Client.Settings returns another value.
// The zero value has the files of podman, skopeo and CRI-O.
type Settings struct {
	// RegistriesConf and RegistriesConfDir are the paths of registries.conf and of the directory with its drop-in files; both empty
	// means the defaults of podman.
	RegistriesConf, RegistriesConfDir string
	// AuthFiles are .dockerconfigjson files: the first with credentials for a repository counts. None means the defaults of podman.
	AuthFiles []string
	// CAs are PEM bundles for a host, such as "mirror.example.com:5000", or for all hosts (""), in addition to the system's.
	CAs map[string]string
	// CertsDirs have a directory for each host with *.crt, *.cert and *.key; nil means the defaults of podman.
	CertsDirs []string
	// Proxy returns the proxy for a URL; nil means the proxies of the environment.
	Proxy func(*url.URL) (*url.URL, error)
	// Allowed are the scopes of images that may be read; nil allows all.
	Allowed []string
	// Places names where all of it is configured, for errors.
	Places Places
}

// noFile and noDir have no configuration.
const noFile, noDir = os.DevNull, "/nonexistent"

// system returns the configuration of the library.
func (s Settings) system() *types.SystemContext {
	sys := &types.SystemContext{SystemRegistriesConfPath: s.RegistriesConf, SystemRegistriesConfDirPath: s.RegistriesConfDir}
	if (s.RegistriesConf == "") != (s.RegistriesConfDir == "") {
		sys.SystemRegistriesConfPath, sys.SystemRegistriesConfDirPath = cmp.Or(s.RegistriesConf, noFile), cmp.Or(s.RegistriesConfDir, noDir)
	}
	return sys
}

// Check returns the error of registries.conf, and forgets the previous content of the file.
func (s Settings) Check() error {
	sysregistriesv2.InvalidateCache()
	_, err := sysregistriesv2.GetRegistries(s.system())
	return err
}

// Client reads images from registries. The zero value is usable. It is safe for concurrent use and must not be copied after first
// use. It remembers only which hosts failed.
type Client struct {
	// Settings returns the current settings; nil means the zero Settings.
	Settings func(context.Context) (Settings, error)
	// Retry is the policy for retryable errors.
	Retry Retry
	// Pace limits the time that silent and slow sources cost.
	Pace Pace
	// Metrics counts requests; nil counts nothing.
	Metrics *Metrics
	// OnSourceFailure is called for each failed source if another source succeeded; nil means to log the error to the
	// logger of ctx.
	OnSourceFailure func(ctx context.Context, err *Error)

	mu     sync.Mutex
	failed map[string]time.Time // hosts by the time of their last failure
}

// Image is an image and its sources. Its methods must not be called concurrently.
type Image struct {
	client    *Client
	reference string
	named     reference.Named
	settings  Settings
	sources   []*source
	reported  map[*source]bool
	// lookasides is the registries.d directory of the image.
	lookasides string
}

// source is a location of an image.
type source struct {
	pull     sysregistriesv2.PullSource
	insecure bool
	system   *types.SystemContext
	guard    *guard
	watch    *watch // of the current attempt
	open     types.ImageSource
	speed    speed
}

// host is the registry with its port if it has one.
func (s *source) host() string { return reference.Domain(s.pull.Reference) }

// BlockedError reports that all sources of an image are blocked.
type BlockedError struct {
	// Image is the reference.
	Image string
	// Blocked are the blocked sources.
	Blocked []string
	// Place configures sources.
	Place string
}

// Error implements error.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("all sources are blocked: %s; configure a mirror, or unblock a source in %s", strings.Join(e.Blocked, ", "), e.Place)
}

// Open determines the sources of an image by SHA-256 digest. It sends no request. The error is a *BlockedError if all sources
// are blocked. The caller closes the image.
func (c *Client) Open(ctx context.Context, image string) (*Image, error) {
	ref, err := name.NewDigest(image, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("parsing the reference, which must be by digest: %w", err)
	}
	if digest := ref.DigestStr(); !strings.HasPrefix(digest, "sha256:") {
		return nil, fmt.Errorf("parsing the reference: %q is not a sha256 digest: container runtimes verify images with no other; use the sha256 digest of the image", digest)
	}
	return c.image(ctx, image, ref)
}

// OpenTag determines the sources of a tag, as Open does for a digest.
func (c *Client) OpenTag(ctx context.Context, tag name.Tag) (*Image, error) {
	return c.image(ctx, tag.Name(), tag)
}

// image returns an image with its sources by the current settings.
func (c *Client) image(ctx context.Context, image string, ref name.Reference) (*Image, error) {
	i := &Image{client: c, reference: image, reported: map[*source]bool{}, lookasides: noDir}
	var err error
	if c.Settings != nil {
		if i.settings, err = c.Settings(ctx); err != nil {
			return nil, fmt.Errorf("reading the registry settings: %w", err)
		}
	}
	if i.named, err = Named(ref); err != nil {
		return nil, err
	}
	i.sources, err = i.settings.sources(image, i.named)
	return i, err
}

// Named returns a reference in the form of the library.
func Named(ref name.Reference) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(strings.Replace(ref.Name(), name.DefaultRegistry+"/", "docker.io/", 1))
	if err != nil {
		return nil, fmt.Errorf("parsing the reference: %w", err)
	}
	return named, nil
}

// sources returns the sources of an image that are not blocked.
func (s Settings) sources(image string, named reference.Named) (sources []*source, err error) {
	sys := s.system()
	blocked := &BlockedError{Image: image, Place: s.Places.unblocked()}
	if s.Allowed != nil && !slices.ContainsFunc(s.Allowed, func(allowed string) bool { return scope.Contains(allowed, named.Name()) }) {
		blocked.Blocked = []string{named.Name() + " (which is not among the allowedRegistries)"}
		return nil, blocked
	}
	pulls := []sysregistriesv2.PullSource{{Reference: named}}
	found, err := sysregistriesv2.FindRegistry(sys, named.Name())
	if err == nil && found != nil {
		pulls, err = found.PullSourcesFromReference(named)
	}
	for _, pull := range pulls {
		var own *sysregistriesv2.Registry
		if err == nil {
			own, err = sysregistriesv2.FindRegistry(sys, pull.Reference.Name())
		}
		if own != nil && own.Blocked {
			blocked.Blocked = append(blocked.Blocked, pull.Reference.Name())
			continue
		}
		sources = append(sources, &source{pull: pull, insecure: pull.Endpoint.Insecure})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("applying registries.conf: %w", err)
	case len(sources) == 0:
		return nil, blocked
	}
	return sources, nil
}

// Close closes the idle connections of the image.
func (i *Image) Close() {
	for _, s := range i.sources {
		s.close()
	}
}

func (s *source) close() {
	if s.open != nil {
		_ = s.open.Close() // the library closes idle connections only
		s.open = nil
	}
}

// Digest returns the digest of the image; empty for a tag.
func (i *Image) Digest() v1.Hash {
	digested, ok := i.named.(reference.Digested)
	if !ok {
		return v1.Hash{}
	}
	return v1.Hash{Algorithm: digested.Digest().Algorithm().String(), Hex: digested.Digest().Encoded()}
}

// UseLookasides sets the registries.d directory with the locations of signatures for Each; by default there are none.
func (i *Image) UseLookasides(dir string) { i.lookasides = dir }

// Reference returns the payload reference in the form of the library.
func (i *Image) Reference() (types.ImageReference, error) { return docker.NewReference(i.named) }

// connect opens the image at a source: the library pings the registry, gets a token and reads the manifest. stop ends the requests
// with the returned context.
func (i *Image) connect(ctx context.Context, s *source, stop context.CancelCauseFunc) (context.Context, error) {
	if s.system == nil {
		if err := i.configure(ctx, s); err != nil {
			return ctx, err
		}
	}
	ctx = s.guard.trace(ctx, stop)
	if s.open != nil {
		return ctx, nil
	}
	at, err := docker.NewReference(s.pull.Reference)
	if err != nil {
		return ctx, err
	}
	open, err := at.NewImageSource(ctx, s.system)
	if err == nil {
		s.open = open
	}
	return ctx, err
}

// configure sets the configuration of the library for one source. It names no registries.conf: the source is known.
func (i *Image) configure(ctx context.Context, s *source) error {
	s.insecure = s.insecure || PlainHTTP(ctx, s.host())
	login, err := i.settings.credentials(s.pull.Reference)
	if err != nil {
		return err
	}
	s.guard = &guard{source: s, credentials: login != types.DockerAuthConfig{}, proxy: i.settings.proxy(), metrics: i.client.Metrics}
	sys := &types.SystemContext{
		SystemRegistriesConfPath: noFile, SystemRegistriesConfDirPath: noDir, RegistriesDirPath: i.lookasides,
		DockerAuthConfig: &login, DockerProxy: s.guard.check, DockerInsecureSkipTLSVerify: types.NewOptionalBool(s.insecure),
	}
	if sys.BaseTLSConfig, err = i.settings.certificates(s.host()); err != nil {
		return err
	}
	if i.settings.CertsDirs != nil {
		sys.DockerPerHostCertDirPath = noDir
	}
	s.system = sys
	return nil
}

// proxy returns the function for the proxies of requests.
func (s Settings) proxy() func(*url.URL) (*url.URL, error) {
	if s.Proxy == nil {
		return httpproxy.FromEnvironment().ProxyFunc()
	}
	return s.Proxy
}

// credentials returns the credentials for a repository; the zero value if there are none.
func (s Settings) credentials(repository reference.Named) (login types.DockerAuthConfig, err error) {
	if len(s.AuthFiles) == 0 {
		sys := s.system()
		sys.AuthFilePath = os.Getenv("REGISTRY_AUTH_FILE")
		return config.GetCredentialsForRef(sys, repository)
	}
	for _, file := range s.AuthFiles {
		login, err = config.GetCredentialsForRef(&types.SystemContext{AuthFilePath: file, SystemRegistriesConfPath: noFile, SystemRegistriesConfDirPath: noDir}, repository)
		if err != nil || login != (types.DockerAuthConfig{}) {
			break
		}
	}
	return login, err
}

// certificates returns the certificates for a host; nil means the system's.
func (s Settings) certificates(host string) (*tls.Config, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificates: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	pool.AppendCertsFromPEM([]byte(s.CAs[""]))
	for _, of := range slices.Compact([]string{host, strings.TrimSuffix(host, ":443")}) {
		pool.AppendCertsFromPEM([]byte(s.CAs[of]))
		for _, dir := range s.CertsDirs {
			if err := tlsclientconfig.SetupCertificates(filepath.Join(dir, of), config); err != nil {
				return nil, fmt.Errorf("reading the certificates of %s: %w", host, err)
			}
		}
	}
	return config, nil
}

// Sources returns the sources of the image in their order.
func (i *Image) Sources() (sources []sysregistriesv2.PullSource) {
	for _, s := range i.sources {
		sources = append(sources, s.pull)
	}
	return sources
}

// CertsDirs are the directories where podman, skopeo and docker look for the certificates of registries.
var CertsDirs = []string{"/etc/containers/certs.d", "/etc/docker/certs.d"}

// Target is a registry for clients that write images.
type Target struct {
	Transport *http.Transport
	Login     types.DockerAuthConfig
	// Insecure allows plain HTTP and unverified certificates.
	Insecure bool
}

// Target returns the registry of an image, never a mirror. The error is a *BlockedError if it is blocked.
func (s Settings) Target(ctx context.Context, image name.Reference) (*Target, error) {
	named, err := Named(image)
	if err != nil {
		return nil, err
	}
	found, err := sysregistriesv2.FindRegistry(s.system(), named.Name())
	if err != nil {
		return nil, fmt.Errorf("applying registries.conf: %w", err)
	}
	if found != nil && found.Blocked {
		return nil, &BlockedError{Image: image.Name(), Blocked: []string{named.Name()}, Place: s.Places.unblocked()}
	}
	t := &Target{Insecure: found != nil && found.Insecure || PlainHTTP(ctx, reference.Domain(named))}
	if t.Login, err = s.credentials(named); err != nil {
		return nil, err
	}
	config, err := s.certificates(reference.Domain(named))
	if err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = t.Insecure
	t.Transport = tlsclientconfig.NewTransport()
	t.Transport.TLSClientConfig, t.Transport.ForceAttemptHTTP2, t.Transport.ResponseHeaderTimeout = config, true, time.Minute
	return t, nil
}
