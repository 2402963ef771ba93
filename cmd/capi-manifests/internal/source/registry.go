// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	ggcrtransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// Pull returns the image or index of a reference by digest, from the first of its sources that has it.
func Pull(ctx context.Context, reference string) (mutate.Appendable, error) {
	access, err := RegistrySettings()
	if err != nil {
		return nil, err
	}
	sources, err := access.Mirrors.Sources(reference)
	if err != nil {
		return nil, err
	}
	descriptor, err := first(ctx, access, sources, ggcr.Get)
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", reference, err)
	}
	if descriptor.MediaType.IsIndex() {
		return descriptor.ImageIndex()
	}
	return descriptor.Image()
}

// Find returns the manifest of a tag or a digest from the first of its sources that has it; nil if none has it.
func Find(ctx context.Context, access fetch.Settings, ref name.Reference) (*ggcr.Descriptor, error) {
	sources, err := access.Mirrors.Sources(ref.Name())
	if tag, isTag := ref.(name.Tag); isTag {
		sources, err = access.Mirrors.TagSources(tag)
	}
	if err != nil {
		return nil, err
	}
	descriptor, err := first(ctx, access, sources, ggcr.Get)
	if refused, ok := errors.AsType[*ggcrtransport.Error](err); ok && refused.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	return descriptor, err
}

// Referrers returns the manifests that refer to one, such as signatures and attestations, from the first source that answers.
func Referrers(ctx context.Context, access fetch.Settings, ref name.Digest) ([]v1.Descriptor, error) {
	sources, err := access.Mirrors.Sources(ref.Name())
	if err != nil {
		return nil, err
	}
	index, err := first(ctx, access, sources, func(from name.Reference, options ...ggcr.Option) (v1.ImageIndex, error) {
		return ggcr.Referrers(from.Context().Digest(ref.DigestStr()), options...)
	})
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	return manifest.Manifests, nil
}

// RegistrySettings reads the registry configuration of the user's container tools.
func RegistrySettings() (fetch.Settings, error) {
	rules, err := mirror.System()
	cas, certErr := transport.ReadCertsDirs(certsDirs()...)
	proxy := transport.ProxyFromEnvironment()
	return fetch.Settings{
		Mirrors: rules, Keychain: keychain.System{}, Transport: transport.New(transport.Options{CAs: cas, Proxy: proxy}),
	}, errors.Join(err, certErr, proxy.Check())
}

// certsDirs returns the directories of certificates, including the user's own; see
// containers-certs.d(5).
func certsDirs() []string {
	dirs := slices.Clone(transport.CertsDirs)
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".config", "containers", "certs.d"))
	}
	return dirs
}

// first returns the result of the first source that succeeds. The error joins the errors of all sources.
func first[T any](ctx context.Context, access fetch.Settings, sources []mirror.Source, ask func(name.Reference, ...ggcr.Option) (T, error)) (T, error) {
	var errs []error
	for _, source := range sources {
		found, err := ask(source.Image, RegistryOptions(ctx, access, source)...)
		if err == nil || ctx.Err() != nil {
			return found, err
		}
		errs = append(errs, fmt.Errorf("from %s: %w", source.Image.Context().Name(), WithAdvice(err, source.Image.Context())))
	}
	var none T
	return none, errors.Join(errs...)
}

// RegistryOptions returns options that make go-containerregistry use the user's
// credentials, certificates and proxies for a source.
func RegistryOptions(ctx context.Context, access fetch.Settings, source mirror.Source) []ggcr.Option {
	return []ggcr.Option{
		ggcr.WithContext(ctx), ggcr.WithUserAgent("capi-manifests"),
		ggcr.WithAuth(&authenticator{finder: access.Keychain, repository: source.Image.Context().Name()}),
		ggcr.WithTransport(access.RoundTripper(source)),
	}
}

// authenticator is an authn.Authenticator with the credentials for a repository.
type authenticator struct {
	finder     keychain.Keychain
	repository string
}

// Authorization implements authn.Authenticator.
func (l *authenticator) Authorization() (*authn.AuthConfig, error) {
	found, err := l.finder.Resolve(context.Background(), l.repository)
	if err != nil {
		return nil, err
	}
	return &authn.AuthConfig{
		Username: found.Username, Password: found.Password,
		IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
	}, nil
}

// WithAdvice adds the next step to an error of a registry that rejects the credentials.
func WithAdvice(err error, repository name.Repository) error {
	status := 0
	if refused, ok := errors.AsType[*ggcrtransport.Error](err); ok {
		status = refused.StatusCode
	}
	if failed, ok := errors.AsType[*fetch.Error](err); ok {
		status = failed.Status
	}
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return err
	}
	return fmt.Errorf("%w; run \"podman login %s\" as a user with access to %s", err, repository.RegistryStr(), repository.RepositoryStr())
}

// Registry returns a registry that reads bundles as podman, skopeo and oc do: from
// the user's mirrors, with the user's credentials.
func Registry() *remote.Registry {
	access := sync.OnceValues(RegistrySettings)
	return &remote.Registry{Client: &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return access() }}}
}

// Resolve returns a reference by digest; it looks up a tag in the sources of the
// image. The name of the image does not change.
func Resolve(ctx context.Context, reference string) (string, error) {
	ref, err := ParseImage(reference)
	if err != nil {
		return "", &ArgumentError{Err: fmt.Errorf("invalid SOURCE %q: neither a path nor an image: %w", reference, err)}
	}
	if _, byDigest := ref.(name.Digest); byDigest {
		return reference, nil
	}
	access, err := RegistrySettings()
	if err != nil {
		return "", fmt.Errorf("reading the registry configuration: %w", err)
	}
	defer access.Transport.Close()
	client := &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return access, nil }}
	digest, err := client.Resolve(ctx, ref.(name.Tag), maxManifest)
	if err != nil {
		return "", fmt.Errorf("resolving tag %s: %w", ref.Name(), WithAdvice(err, ref.Context()))
	}
	return ref.Context().Digest(digest.String()).Name(), nil
}

// maxManifest is the maximum size of a manifest in bytes; as in remote.Limits.
const maxManifest = 4 << 20

