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

	"github.com/google/go-containerregistry/pkg/name"
	ggcrtransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/keychain"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// NewClient returns a client with the registry configuration of the user's container tools. It reads the
// configuration once.
func NewClient() *fetch.Client {
	settings := sync.OnceValues(registrySettings)
	return &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings() }}
}

// Registry returns a registry that reads bundles as podman, skopeo and oc do: from
// the user's mirrors, with the user's credentials.
func Registry() *remote.Registry { return &remote.Registry{Client: NewClient()} }

func registrySettings() (fetch.Settings, error) {
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

// Resolve returns a reference by digest; it looks up a tag in the sources of the
// image. The name of the image does not change.
func Resolve(ctx context.Context, client *fetch.Client, reference string) (string, error) {
	ref, err := ParseImage(reference)
	if err != nil {
		return "", &ArgumentError{Err: fmt.Errorf("invalid SOURCE %q: neither a path nor an image: %w", reference, err)}
	}
	if _, byDigest := ref.(name.Digest); byDigest {
		return reference, nil
	}
	digest, err := client.Resolve(ctx, ref.(name.Tag), MaxManifest)
	if err != nil {
		return "", fmt.Errorf("resolving tag %s: %w", ref.Name(), WithAdvice(err, ref.Context()))
	}
	return ref.Context().Digest(digest.String()).Name(), nil
}

// MaxManifest is the maximum size of a manifest in bytes; as in remote.Limits.
const MaxManifest = 4 << 20
