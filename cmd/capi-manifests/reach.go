// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capi-installer/capi-installer/extractor/remote/credential"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/network"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
)

// userAccess reads how the user's container tools reach registries.
func userAccess() (pull.Access, error) {
	rules, err := mirror.System()
	cas, certErr := network.ReadCertsDirs(certsDirs()...)
	proxy := network.ProxyFromEnvironment()
	return pull.Access{
		Mirrors: rules, Logins: credential.System{}, Network: network.New(network.Options{CAs: cas, Proxy: proxy}),
	}, errors.Join(err, certErr, proxy.Check())
}

// certsDirs are the directories of certificates, the user's own among them; see containers-certs.d(5).
func certsDirs() []string {
	dirs := slices.Clone(network.CertsDirs)
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".config", "containers", "certs.d"))
	}
	return dirs
}

// firstOf asks the sources in their order until one has what is wanted. The error joins those of all.
func firstOf[T any](ctx context.Context, access pull.Access, sources []mirror.Source, ask func(name.Reference, ...ggcr.Option) (T, error)) (T, error) {
	var errs []error
	for _, source := range sources {
		found, err := ask(source.Image, registryOptions(ctx, access, source)...)
		if err == nil || ctx.Err() != nil {
			return found, err
		}
		errs = append(errs, fmt.Errorf("from %s: %w", source.Image.Context().Name(), withAdvice(err, source.Image.Context())))
	}
	var none T
	return none, errors.Join(errs...)
}

// registryOptions give the requests of go-containerregistry to a source the user's
// credentials, certificates and proxies.
func registryOptions(ctx context.Context, access pull.Access, source mirror.Source) []ggcr.Option {
	return []ggcr.Option{
		ggcr.WithContext(ctx), ggcr.WithUserAgent("capi-manifests"),
		ggcr.WithAuth(&authenticator{finder: access.Logins, repository: source.Image.Context().Name()}),
		ggcr.WithTransport(access.Transport(source)),
	}
}

// authenticator is an authn.Authenticator with the credentials for a repository.
type authenticator struct {
	finder     credential.Finder
	repository string
}

// Authorization implements authn.Authenticator.
func (l *authenticator) Authorization() (*authn.AuthConfig, error) {
	found, err := l.finder.Find(context.Background(), l.repository)
	if err != nil {
		return nil, err
	}
	return &authn.AuthConfig{
		Username: found.Username, Password: found.Password,
		IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
	}, nil
}

// withAdvice says what to do where a registry lets nobody in.
func withAdvice(err error, repository name.Repository) error {
	refused, ok := errors.AsType[*transport.Error](err)
	if !ok || (refused.StatusCode != http.StatusUnauthorized && refused.StatusCode != http.StatusForbidden) {
		return err
	}
	return fmt.Errorf("%w; log in with \"podman login %s\" as somebody who may use %s", err, repository.RegistryStr(), repository.RepositoryStr())
}
